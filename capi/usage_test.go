package capi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUsageHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header, value string
		want          Usage
	}{
		"app":                      {"X-App-Usage", `{"call_count":28,"total_time":76,"total_cputime":25}`, Usage{Percent: 76}},
		"business":                 {"X-Business-Use-Case-Usage", `{"1":[{"type":"a","call_count":10,"total_cputime":1,"total_time":1,"estimated_time_to_regain_access":0}],"2":[{"call_count":99,"estimated_time_to_regain_access":19}]}`, Usage{99, 19 * time.Minute}},
		"business, the other name": {"X-Business-Use-Case", `{"1":[{"call_count":"95","estimated_time_to_regain_access":"2"}]}`, Usage{95, 2 * time.Minute}},
		"ad account":               {"X-Ad-Account-Usage", `{"acc_id_util_pct":9.67,"reset_time_duration":100,"ads_api_access_tier":"standard_access"}`, Usage{Percent: 9.67}},
		"ad account, used up":      {"X-Ad-Account-Usage", `{"acc_id_util_pct":100,"reset_time_duration":100}`, Usage{100, 100 * time.Second}},
		"reports":                  {"X-FB-Ads-Insights-Throttle", `{"app_id_util_pct":3,"acc_id_util_pct":80.5}`, Usage{Percent: 80.5}},
		"negative and endless":     {"X-Business-Use-Case-Usage", `{"1":[{"call_count":-5,"estimated_time_to_regain_access":1e300},{"call_count":"NaN","total_time":"Inf"}]}`, Usage{0, 24 * time.Hour}},
		"rubbish":                  {"X-App-Usage", `oops`, Usage{}},
		"another shape":            {"X-App-Usage", `[[{"call_count":null}], 3]`, Usage{}},
	} {
		h := http.Header{}
		h.Set(c.header, c.value)
		require.Equal(t, c.want, parseUsage(h), name)
	}
}
