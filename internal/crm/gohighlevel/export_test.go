package gohighlevel

import "time"

// Hasty returns a CRM that does not rest between the readings of a list.
func Hasty() *CRM {
	c := New()
	c.pause, c.patience = 0, 10*time.Millisecond
	return c
}
