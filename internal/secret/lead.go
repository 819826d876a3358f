package secret

// SealCopy seals a further value of a lead, such as what left for a CRM, under the
// lead's key: it is forgotten with the lead. id names the value.
func (r *Ring) SealCopy(lead, id int64, wrapped, plain []byte) ([]byte, error) {
	key, err := r.OpenLead(lead, wrapped)
	if err != nil {
		return nil, err
	}
	return Seal(key, Place("lead copy", r.workspace, lead, id), plain), nil
}

// ReadCopy returns what SealCopy has sealed.
func (r *Ring) ReadCopy(lead, id int64, wrapped, sealed []byte) ([]byte, error) {
	key, err := r.OpenLead(lead, wrapped)
	if err != nil {
		return nil, err
	}
	return Open(key, Place("lead copy", r.workspace, lead, id), sealed)
}
