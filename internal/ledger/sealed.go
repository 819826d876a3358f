package ledger

import (
	"encoding/json"
	"fmt"

	"github.com/capiloop/capiloop/capi"
)

// sealedLead is what of a lead is kept under its key.
type sealedLead struct {
	Contact   Contact      `json:"contact,omitzero"`
	Answers   []FormAnswer `json:"answers,omitempty"`
	Clicks    Clicks       `json:"clicks,omitzero"`
	PageURL   string       `json:"page_url,omitempty"`
	External  string       `json:"external_id,omitempty"`
	IP        string       `json:"ip,omitempty"`
	UserAgent string       `json:"user_agent,omitempty"`
}

// Split takes out of a lead what must not stand open, as the plain text to be sealed.
func (l *Lead) Split() (open Lead, plain []byte, err error) {
	plain, err = json.Marshal(sealedLead{l.Contact, l.Answers, l.Clicks, l.PageURL, l.ExternalID, l.IP, l.UserAgent})
	if err != nil {
		return Lead{}, nil, fmt.Errorf("put the lead's contact together: %w", err)
	}
	open = *l
	open.Contact, open.Answers, open.Clicks, open.PageURL, open.ExternalID, open.IP, open.UserAgent = Contact{}, nil, Clicks{}, "", "", "", ""
	return open, plain, nil
}

// Join is the reverse of Split.
func (l *Lead) Join(plain []byte) error {
	var s sealedLead
	if err := json.Unmarshal(plain, &s); err != nil {
		return fmt.Errorf("read the contact of lead %s: it was sealed by another version", l.ID)
	}
	l.Contact, l.Answers, l.Clicks, l.PageURL, l.ExternalID, l.IP, l.UserAgent = s.Contact, s.Answers, s.Clicks, s.PageURL, s.External, s.IP, s.UserAgent
	return nil
}

// Normalised returns the lead's e-mail and phone in the one form by which the same
// person is recognised; "" where there is none. country is the default for phones.
func (l *Lead) Normalised(country string) (email, phone string) {
	if c := l.Contact.Country; c != "" {
		if n, _ := capi.NormaliseValue(capi.KeyCountry, c, capi.Locale{}); len(n.Texts) > 0 {
			country = n.Texts[0]
		}
	}
	if n, _ := capi.NormaliseValue(capi.KeyEmail, l.Contact.Email, capi.Locale{}); len(n.Texts) > 0 {
		email = n.Texts[0]
	}
	if n, p := capi.NormaliseValue(capi.KeyPhone, l.Contact.Phone, capi.Locale{Country: country}); p == nil && len(n.Texts) > 0 {
		phone = n.Texts[0]
	}
	return email, phone
}
