package capi

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Usage is how much of Meta's limits is used up. Meta advises to slow down at 75
// percent; page "Rate limiting".
type Usage struct {
	Percent      float64       // the highest of all limits that the answer names, 0 if it names none
	RegainAccess time.Duration // how long until calls are allowed again, 0 if they are or Meta does not say
}

// usageHeaders are the headers that carry usage. Meta's page writes the second
// one both ways.
var usageHeaders = [...]string{
	"X-App-Usage", "X-Business-Use-Case-Usage", "X-Business-Use-Case", "X-Ad-Account-Usage", "X-Fb-Ads-Insights-Throttle",
}

func parseUsage(h http.Header) Usage {
	var u Usage
	for _, name := range usageHeaders {
		for _, text := range h.Values(name) {
			var tree any
			if json.Unmarshal([]byte(text), &tree) == nil {
				u.read(tree)
			}
		}
	}
	return u
}

// read looks at every level, for the shapes differ by header (a business's id
// stands above a list) and Meta adds new ones.
func (u *Usage) read(tree any) {
	switch t := tree.(type) {
	case []any:
		for _, v := range t {
			u.read(v)
		}
	case map[string]any:
		for key, v := range t {
			u.member(key, v)
		}
		// X-Ad-Account-Usage counts down (in seconds) also while calls are allowed.
		used, _ := usageNumber(t["acc_id_util_pct"])
		reset, _ := usageNumber(t["reset_time_duration"])
		if used >= 100 {
			u.RegainAccess = max(u.RegainAccess, waitOf(reset))
		}
	}
}

func (u *Usage) member(key string, v any) {
	n, ok := usageNumber(v)
	switch {
	case !ok:
		u.read(v)
	case key == "estimated_time_to_regain_access":
		u.RegainAccess = max(u.RegainAccess, waitOf(n*60))
	case key == "call_count", key == "total_cputime", key == "total_time", strings.HasSuffix(key, "_util_pct"):
		u.Percent = max(u.Percent, n)
	}
}

func usageNumber(v any) (float64, bool) {
	switch t := v.(type) {
	case float64:
		return t, true
	case string:
		n, err := strconv.ParseFloat(t, 64)
		return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
	}
	return 0, false
}

// waitOf turns seconds into a duration and keeps it sane: a header is no reason to sleep for more than a day.
func waitOf(n float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(max(n, 0), day) * float64(time.Second))
}
