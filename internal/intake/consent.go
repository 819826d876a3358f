package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/record"
)

const consentPath = "/v1/consent"

const consentExample = `send {"email":"jane@example.com","granted":false}; lead_id, phone and external_id are understood, too`

// consent is POST /v1/consent: a person withdraws, or gives again. It may be repeated
// at will, for the newest word counts.
func (h *Handler) consent(ctx context.Context, c *call) reply {
	raw, _, e := h.posted(ctx, c, &thing{example: consentExample})
	var d record.Decision
	if e == nil {
		d, e = readDecision(raw)
	}
	if e != nil {
		return e.reply()
	}
	done, err := h.c.Leads.Consent(ctx, c.workspace, d)
	if err != nil {
		return h.notRecorded(ctx, c, err).reply()
	}
	if len(done.Problems) > 0 {
		p := done.Problems[0]
		return wrong{http.StatusUnprocessableEntity, p.Code, p.Reason, p.Fix, p.Field}.reply()
	}
	return reply{status: http.StatusOK, body: fmt.Appendf(nil, "{\"leads\":%d,\"events\":%d}\n", done.Leads, done.Events)}
}

// readDecision reads the body. What is not understood refuses it: a withdrawal that
// does less than it says would be worse than none.
func readDecision(raw []byte) (d record.Decision, e *wrong) {
	if raw[0] != '{' {
		return d, &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "want an object, got " + shape(raw), consentExample, ""}
	}
	fields := map[string]*string{"lead_id": &d.LeadID, "platform": &d.Platform, "email": &d.Email, "phone": &d.Phone, "external_id": &d.ExternalID}
	seen := make(map[string]bool)
	eachMember(raw, func(key string, value []byte) bool {
		switch field := fields[key]; {
		case seen[key]:
			e = &wrong{http.StatusUnprocessableEntity, capi.ProblemDuplicateField, "the field stands twice in one object", "send it once", shortKey(key)}
		case key == "granted":
			if err := json.Unmarshal(value, &d.Granted); err != nil || string(value) == "null" {
				e = &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "it is neither true nor false", "send false to withdraw, true to give again", key}
			}
		case field == nil:
			e = &wrong{http.StatusUnprocessableEntity, capi.ProblemUnknownField, "a decision has no such field", consentExample, shortKey(key)}
		default:
			e = readText(key, value, field)
		}
		seen[key] = true
		return e == nil
	})
	switch {
	case e != nil:
	case !seen["granted"]:
		e = &wrong{http.StatusUnprocessableEntity, "no_decision", "the decision is missing", "send granted: false to withdraw, true to give again", "granted"}
	case d.LeadID+d.Email+d.Phone+d.ExternalID == "":
		e = &wrong{http.StatusUnprocessableEntity, "no_identity", "nothing says whose decision it is", consentExample, ""}
	case d.Platform != "" && (d.LeadID == "" || !slices.Contains([]string{"meta", "google", "tiktok", "linkedin"}, d.Platform)):
		e = &wrong{http.StatusUnprocessableEntity, "unknown_platform", "platform says whose lead_id it is", "send meta, google, tiktok or linkedin beside a lead_id, or leave it out", "platform"}
	}
	return d, e
}

// readText reads a text, or a number with all its digits.
func readText(name string, value []byte, into *string) *wrong {
	*into = string(value)
	if value[0] == '"' {
		*into = ""
		_ = json.Unmarshal(value, into) // it was checked to be JSON
	} else if !isDigits(*into) {
		return &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "want a text, got " + shape(value), "send it as text, or leave the field out", name}
	}
	*into = strings.TrimSpace(*into)
	return nil
}
