package capi

import "time"

// Locale is what Normalise must know about where a value comes from.
type Locale struct {
	// Country is the default country for phones, postcodes and states without
	// one: ISO 3166-1 alpha-2, any case. "" means none: a phone without country
	// code is then sent as it is, with a warning. The event's own user_data.country
	// goes before it.
	Country string
	// DateOrder settles dates such as 03/04/1997: "mdy" (also for ""), "dmy" or "ymd".
	DateOrder string
	// Now bounds birth dates; the zero value means time.Now().
	Now time.Time
}
