package secret

// contactOf binds what is sealed of a lead to the lead.
func (r *Ring) contactOf(lead int64) []byte { return Place("lead contact", r.workspace, lead) }

// SealLead seals what must not stand open of a new lead under a key of its own.
// Wrapped and sealed are kept beside each other; deleting wrapped forgets the lead.
func (r *Ring) SealLead(lead int64, plain []byte) (wrapped, sealed []byte) {
	wrapped, key := r.WrapLead(lead)
	return wrapped, Seal(key, r.contactOf(lead), plain)
}

// UnsealLead opens what SealLead sealed.
func (r *Ring) UnsealLead(lead int64, wrapped, sealed []byte) ([]byte, error) {
	key, err := r.OpenLead(lead, wrapped)
	if err != nil {
		return nil, err
	}
	return Open(key, r.contactOf(lead), sealed)
}

// SealCopy seals a further value of a lead, such as what left for a CRM, under the
// lead's key: it is forgotten with the lead. id names the value.
func (r *Ring) SealCopy(lead, id int64, wrapped, plain []byte) ([]byte, error) {
	key, err := r.OpenLead(lead, wrapped)
	if err != nil {
		return nil, err
	}
	return Seal(key, Place("lead copy", r.workspace, lead, id), plain), nil
}

// UnsealCopy opens what SealCopy sealed.
func (r *Ring) UnsealCopy(lead, id int64, wrapped, sealed []byte) ([]byte, error) {
	key, err := r.OpenLead(lead, wrapped)
	if err != nil {
		return nil, err
	}
	return Open(key, Place("lead copy", r.workspace, lead, id), sealed)
}
