package linkedin

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// response is a lead as LinkedIn returns it, with its form.
type response struct {
	ID          leadform.Ident `json:"id"`
	Form        form           `json:"form"`
	FormURN     string         `json:"versionedLeadGenFormUrn"`
	LeadType    string         `json:"leadType"`
	SubmittedAt leadform.Ident `json:"submittedAt"` // Unix milliseconds
	TestLead    bool           `json:"testLead"`
	Metadata    metadata       `json:"leadMetadata"`
	Entity      entity         `json:"associatedEntity"`
	// The same, resolved: what the projection asks for.
	MetadataInfo metadata `json:"leadMetadataInfo"`
	EntityInfo   entity   `json:"associatedEntityInfo"`
	FormResponse struct {
		Answers  []answer `json:"answers"`
		Consents []struct {
			ID       leadform.Ident `json:"consentId"`
			Accepted bool           `json:"accepted"`
		} `json:"consentResponses"`
	} `json:"formResponse"`
}

// urnOrInfo is a URN, bare or inside an object that tells more of it.
type urnOrInfo struct{ id, name string }

// UnmarshalJSON takes either; anything else is none.
func (u *urnOrInfo) UnmarshalJSON(raw []byte) error {
	var info struct {
		ID   leadform.Ident `json:"id"`
		URN  leadform.Ident `json:"urn"`
		Name leadform.Ident `json:"name"`
	}
	var urn leadform.Ident
	if json.Unmarshal(raw, &info) != nil {
		_ = urn.UnmarshalJSON(raw)
	}
	u.id, u.name = lastOf(string(cmp.Or(urn, info.URN, info.ID))), string(info.Name)
	return nil
}

type metadata struct {
	Sponsored struct {
		Campaign urnOrInfo `json:"campaign"`
	} `json:"sponsoredLeadMetadata"`
	SponsoredInfo struct {
		Campaign urnOrInfo `json:"campaign"`
	} `json:"sponsoredLeadMetadataInfo"`
}

type entity struct {
	Creative urnOrInfo `json:"associatedCreative"`
}

type answer struct {
	QuestionID leadform.Ident `json:"questionId"`
	Details    struct {
		Text struct {
			Answer string `json:"answer"`
		} `json:"textQuestionAnswer"`
		Choice struct {
			Options []leadform.Ident `json:"options"`
		} `json:"multipleChoiceAnswer"`
	} `json:"answerDetails"`
}

type form struct {
	ID     leadform.Ident `json:"id"`
	Name   string         `json:"name"`
	Locale struct {
		Country  string `json:"country"`
		Language string `json:"language"`
	} `json:"creationLocale"`
	Hidden []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"hiddenFields"`
	Content struct {
		Questions []question `json:"questions"`
		Legal     struct {
			Consents []struct {
				ID   leadform.Ident `json:"id"`
				Text localised      `json:"consent"`
			} `json:"consents"`
		} `json:"legalInfo"`
	} `json:"content"`
}

type question struct {
	ID      leadform.Ident `json:"questionId"`
	Name    string         `json:"name"`
	Field   string         `json:"predefinedField"`
	Text    localised      `json:"question"`
	Details struct {
		Choice struct {
			Options []struct {
				ID   leadform.Ident `json:"id"`
				Text localised      `json:"text"`
			} `json:"options"`
		} `json:"multipleChoiceQuestionDetails"`
	} `json:"questionDetails"`
}

type localised struct {
	Localized map[string]string `json:"localized"`
}

// in returns the text in the form's language, else the first by the languages' names.
func (t localised) in(locale string) string {
	if s, ok := t.Localized[locale]; ok {
		return s
	}
	for _, k := range slices.Sorted(maps.Keys(t.Localized)) {
		return t.Localized[k]
	}
	return ""
}

// lead makes our lead. Answers come in no order and are joined to their questions by
// id; predefinedField says what a question is, whatever its words.
func (r *response) lead(s leadform.Source) ledger.Lead {
	l := ledger.Lead{
		Workspace: s.Workspace, Source: s.Name, Kind: Name, Platform: "linkedin", LeadID: string(r.ID), Test: r.TestLead,
		CreatedAt: word{At: r.SubmittedAt}.occurred(),
		Origin: ledger.Origin{
			FormID: cmp.Or(string(r.Form.ID), formID(r.FormURN)), FormName: leadform.Clean(r.Form.Name),
			AdID:         cmp.Or(r.Entity.Creative.id, r.EntityInfo.Creative.id),
			AdName:       cmp.Or(r.EntityInfo.Creative.name, r.Entity.Creative.name),
			CampaignID:   cmp.Or(r.Metadata.Sponsored.Campaign.id, r.MetadataInfo.Sponsored.Campaign.id, r.MetadataInfo.SponsoredInfo.Campaign.id),
			CampaignName: cmp.Or(r.MetadataInfo.SponsoredInfo.Campaign.name, r.MetadataInfo.Sponsored.Campaign.name),
			Organic:      r.LeadType != "" && r.LeadType != "SPONSORED",
		},
	}
	l.History = !l.CreatedAt.IsZero() && l.CreatedAt.Before(s.CreatedAt.Truncate(time.Millisecond))
	locale := r.Form.Locale.Language + "_" + r.Form.Locale.Country
	questions := make(map[leadform.Ident]*question, len(r.Form.Content.Questions))
	for i := range r.Form.Content.Questions {
		questions[r.Form.Content.Questions[i].ID] = &r.Form.Content.Questions[i]
	}
	for _, a := range r.FormResponse.Answers {
		q := questions[a.QuestionID]
		if q == nil { // the form has changed since: the answer is kept, under its id
			q = &question{ID: a.QuestionID}
		}
		leadform.Assign(&l, leadform.LinkedInField(q.Field), ledger.FormAnswer{
			Question: firstOf(q.Name, q.Field, string(q.ID)), Label: q.Text.in(locale), Values: q.values(a, locale),
		})
	}
	r.consents(&l, locale, firstOf(s.Options.Text("consent_id")))
	for _, h := range r.Form.Hidden {
		leadform.SetClick(&l, h.Name, h.Value)
		leadform.Assign(&l, leadform.Custom, ledger.FormAnswer{Question: h.Name, Values: []string{h.Value}})
	}
	leadform.Complete(&l)
	return l
}

// values is the answer's text, or the texts of the options that were chosen.
func (q *question) values(a answer, locale string) []string {
	values := make([]string, 0, 1+len(a.Details.Choice.Options))
	values = append(values, a.Details.Text.Answer)
	for _, id := range a.Details.Choice.Options {
		text := string(id)
		for _, o := range q.Details.Choice.Options {
			if o.ID == id {
				text = cmp.Or(o.Text.in(locale), text)
			}
		}
		values = append(values, text)
	}
	return values
}

func (r *response) consents(l *ledger.Lead, locale, decides string) {
	for _, c := range r.FormResponse.Consents {
		label := ""
		for _, box := range r.Form.Content.Legal.Consents {
			if box.ID == c.ID {
				label = box.Text.in(locale)
			}
		}
		value := "false"
		if c.Accepted {
			value = "true"
		}
		leadform.Assign(l, leadform.Custom, ledger.FormAnswer{
			Question: "consent_" + string(c.ID), Label: label, Values: []string{value}, Consent: true,
		})
		switch {
		case decides == "" || string(c.ID) != decides:
		case c.Accepted:
			l.Consent = ledger.ConsentGranted
		default:
			l.Consent = ledger.ConsentDenied
		}
	}
}

// lastOf is the id at the end of a URN.
func lastOf(urn string) string { return urn[strings.LastIndexByte(urn, ':')+1:] }

// formID takes the form's id out of urn:li:versionedLeadGenForm:(urn:li:leadGenForm:N,version).
func formID(urn string) string {
	_, inner, ok := strings.Cut(urn, "(")
	if !ok {
		return lastOf(urn)
	}
	inner, _, _ = strings.Cut(inner, ",")
	return lastOf(inner)
}
