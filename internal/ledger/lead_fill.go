package ledger

import "slices"

// FillFrom adds to a lead what another touch of the same person brings and the lead
// lacks: fields of the contact, answers, click ids. What is there stays. It tells
// whether anything was added.
func (l *Lead) FillFrom(other *Lead) bool {
	added := false
	fill := func(to *string, from string) {
		if *to == "" && from != "" {
			*to, added = from, true
		}
	}
	to, from := &l.Contact, &other.Contact
	if to.FullName == "" && to.FirstName == "" && to.LastName == "" {
		fill(&to.FullName, from.FullName)
		fill(&to.FirstName, from.FirstName)
		fill(&to.LastName, from.LastName)
	}
	if to.Street == "" && to.City == "" && to.State == "" && to.Postcode == "" && to.Country == "" { // parts of two addresses make none
		fill(&to.Street, from.Street)
		fill(&to.City, from.City)
		fill(&to.State, from.State)
		fill(&to.Postcode, from.Postcode)
		fill(&to.Country, from.Country)
	}
	fill(&to.Email, from.Email)
	fill(&to.Phone, from.Phone)
	fill(&to.WorkEmail, from.WorkEmail)
	fill(&to.WorkPhone, from.WorkPhone)
	fill(&to.Birthday, from.Birthday)
	fill(&to.Gender, from.Gender)
	fill(&to.Company, from.Company)
	fill(&to.JobTitle, from.JobTitle)
	fill(&l.Clicks.FBC, other.Clicks.FBC)
	fill(&l.Clicks.FBP, other.Clicks.FBP)
	fill(&l.Clicks.FBClid, other.Clicks.FBClid)
	fill(&l.Clicks.GClid, other.Clicks.GClid)
	fill(&l.Clicks.GBraid, other.Clicks.GBraid)
	fill(&l.Clicks.WBraid, other.Clicks.WBraid)
	fill(&l.Clicks.TTClid, other.Clicks.TTClid)
	fill(&l.Clicks.LiFatID, other.Clicks.LiFatID)
	fill(&l.Clicks.CTWAClid, other.Clicks.CTWAClid)
	fill(&l.Clicks.MSClkid, other.Clicks.MSClkid)
	for _, a := range other.Answers {
		known := func(b FormAnswer) bool { return a.Question == b.Question && slices.Equal(a.Values, b.Values) }
		if !slices.ContainsFunc(l.Answers, known) {
			l.Answers, added = append(l.Answers, a), true
		}
	}
	return added
}
