package kommo

import "time"

// SetLag sets how long the search may lag behind.
func (c *CRM) SetLag(lag time.Duration) { c.lag = lag }
