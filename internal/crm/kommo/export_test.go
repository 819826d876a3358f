package kommo

import "time"

// SetLag sets how long the search may lag behind.
func (c *CRM) SetLag(lag time.Duration) { c.lag = lag }

// Old returns a CRM whose process began long ago.
func Old() *CRM {
	c := New()
	c.born = c.born.Add(-time.Hour)
	return c
}

// Hasty returns a CRM that does not rest between the readings of a list.
func Hasty() *CRM {
	c := Old()
	c.pause = 0
	return c
}
