package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
)

// Check asks Graph whether leads of the Page reach us: is the token good and may it
// read leads, does the Page tell this app of new leads, does the Leads Access of the
// Page let the app and its user read them, can the forms be listed, and does our own
// address answer Meta's handshake.
func (k *Kind) Check(ctx context.Context, s leadform.Source) []leadform.Check {
	r, err := k.reader(s)
	if err != nil {
		return []leadform.Check{{Name: "settings", Sentence: "Leads cannot be read: " + err.Error() + ".", NextStep: "Mend the source's entry in the configuration."}}
	}
	t, err := r.DebugToken(ctx, "")
	checks := []leadform.Check{checkToken(t, err, k.config.Now())}
	if err != nil {
		t = capi.TokenInfo{}
	}
	page, err := r.Page(ctx, pageID(s), "", "")
	checks = append(checks, checkSubscription(page, t.AppID, err))
	return append(checks, checkAccess(ctx, r, pageID(s), t), checkForms(ctx, r, pageID(s)), k.checkHandshake(ctx, s))
}

// neededScopes: leads are read with the first, forms and subscriptions with the others.
var neededScopes = []string{"leads_retrieval", "pages_manage_metadata", "pages_show_list", "pages_read_engagement", "ads_management"}

func checkToken(t capi.TokenInfo, err error, now time.Time) leadform.Check {
	c := leadform.Check{Name: "token"}
	switch {
	case err != nil:
		c.Sentence, c.NextStep = "The Page's token could not be examined: "+reason(err), nextStep(err)
		return c
	case !t.Valid:
		x := capi.Explain(t.ErrorCode, t.ErrorSubcode)
		if t.ErrorCode == 0 {
			x = capi.Explain(190, 0)
		}
		c.Sentence, c.NextStep = sentence(x.Title)+" "+sentence(x.Cause), sentence(x.NextStep)
		return c
	}
	var missing []string
	for _, scope := range neededScopes {
		if len(t.Scopes) > 0 && !slices.Contains(t.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	switch {
	case slices.Contains(missing, "leads_retrieval"):
		c.Sentence = "The token lacks " + strings.Join(missing, ", ") + "."
		c.NextStep = "Generate it again for the system user, with these permissions ticked."
	case len(missing) > 0:
		c.Warning = true
		c.Sentence = "The token may read leads, but lacks " + strings.Join(missing, ", ") + "."
		c.NextStep = "Generate it again with these permissions ticked, or names of ads and forms may be missing."
	case !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(now.Add(14*24*time.Hour)):
		c.Warning = true
		c.Sentence = "The token ends on " + t.ExpiresAt.UTC().Format("2 January 2006, 15:04 MST") + "; leads stop then."
		c.NextStep = "Use a Page token made with a system user's token: it does not expire."
	default:
		c.OK, c.Sentence = true, "The token is valid and may read leads."
	}
	return c
}

func checkSubscription(p capi.Page, appID string, err error) leadform.Check {
	c := leadform.Check{Name: "subscription"}
	if err != nil {
		c.Sentence, c.NextStep = "It could not be read which apps the Page tells of new leads: "+reason(err), nextStep(err)
		return c
	}
	ours := slices.IndexFunc(p.Apps, func(a capi.SubscribedApp) bool { return appID == "" || a.ID == appID })
	subscribe := "Subscribe it: POST /" + p.ID + "/subscribed_apps with subscribed_fields=leadgen and the Page's token."
	switch {
	case ours < 0 && len(p.Apps) > 0:
		c.Sentence, c.NextStep = fmt.Sprintf("The Page tells %d other apps of new leads, not the app of this token.", len(p.Apps)), subscribe
	case ours < 0:
		c.Sentence, c.NextStep = "The Page tells no app of new leads; they arrive by the sweep only.", subscribe
	case !slices.Contains(p.Apps[ours].Fields, "leadgen"):
		c.Sentence, c.NextStep = "The app is installed on the Page, but without the field leadgen.", subscribe
	default:
		c.OK, c.Sentence = true, "The Page tells the app of new leads."
	}
	return c
}

func checkAccess(ctx context.Context, r *capi.Reader, page string, t capi.TokenInfo) leadform.Check {
	c := leadform.Check{Name: "lead access"}
	if t.UserID == "" {
		c.Warning, c.Sentence = true, "Meta does not say whose token it is, so the Page's Leads Access could not be asked for."
		c.NextStep = "Look at Business Settings, Integrations, Leads Access, if leads do not arrive."
		return c
	}
	p, err := r.Page(ctx, page, t.UserID, t.AppID)
	switch a := p.Access; {
	case err != nil:
		c.Sentence, c.NextStep = "The Page's Leads Access could not be asked for: "+reason(err), nextStep(err)
	case a == nil:
		c.Warning, c.Sentence = true, "Meta did not answer whether leads may be read."
		c.NextStep = "Look at Business Settings, Integrations, Leads Access, if leads do not arrive."
	case !a.CanAccessLead:
		c.Sentence = sentence(firstOf(a.FailureReason, "Leads of this Page may not be read")) + whoLacks(a)
		c.NextStep = sentence(firstOf(a.FailureResolution, "In Business Settings, Integrations, Leads Access, add the app and its user for this Page"))
	default:
		c.OK, c.Sentence = true, "The app and its user may read the Page's leads."
	}
	return c
}

func whoLacks(a *capi.LeadAccess) string {
	switch {
	case !a.AppPermission && !a.UserPermission:
		return " Neither the app nor the token's user is listed."
	case !a.AppPermission:
		return " The app is not listed."
	case !a.UserPermission:
		return " The token's user is not listed."
	}
	return ""
}

func checkForms(ctx context.Context, r *capi.Reader, page string) leadform.Check {
	c := leadform.Check{Name: "forms"}
	active, all := 0, 0
	for form, err := range r.Forms(ctx, page) {
		if err != nil {
			c.Sentence, c.NextStep = "The Page's forms cannot be listed: "+reason(err), nextStep(err)
			return c
		}
		if all++; form.Status == "ACTIVE" {
			active++
		}
	}
	if active == 0 {
		c.Warning, c.Sentence = true, fmt.Sprintf("The Page has %d forms, none of them active.", all)
		c.NextStep = "Publish a form, or check page_id."
		return c
	}
	c.OK, c.Sentence = true, fmt.Sprintf("The Page has %d active forms.", active)
	return c
}

func reason(err error) string {
	if e, ok := errors.AsType[*capi.APIError](err); ok {
		return sentence(words(e))
	}
	return sentence(err.Error())
}

func nextStep(err error) string {
	if e, ok := errors.AsType[*capi.APIError](err); ok {
		return sentence(e.Explanation().NextStep)
	}
	return "Try again."
}

// sentence begins with a capital and ends with a full stop.
func sentence(s string) string {
	if s = strings.TrimRight(strings.TrimSpace(s), "."); s == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
}
