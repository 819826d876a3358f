package google_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatStandsOpenIsCleanAndShort(t *testing.T) {
	t.Parallel()
	for name, field := range map[string]string{
		"lead_id": "lead_id", "form_id": "form_id", "campaign_id": "campaign_id", "adgroup_id": "adgroup_id",
		"creative_id": "creative_id", "asset_group_id": "asset_group_id", "gcl_id": "gcl_id",
	} {
		body := func(value string) string {
			id := `"lead_id":"x",`
			if field == "lead_id" {
				id = ""
			}
			return `{"google_key":"google-key-0001",` + id + `"` + field + `":` + value + `,"user_column_data":[{"column_id":"EMAIL","string_value":"a@example.com"}]}`
		}
		l := one(t, receive(body(`"\u0000 a\u0000b\ud800 "`)))
		open := []string{l.LeadID, l.Origin.FormID, l.Origin.CampaignID, l.Origin.AdSetID, l.Origin.AdID, l.Clicks.GClid}
		require.NotContains(t, strings.Join(open, ""), "\x00", name)
		require.Contains(t, open, "ab\ufffd", name)

		long := strings.Repeat("x", 512)
		require.Equal(t, 200, receive(body(`"`+long+`"`)).Answer.Status, name)
		for _, value := range []string{`"` + long + `x"`, strings.Repeat("1", 513)} {
			r := receive(body(value))
			requireRefused(t, r, 400)
			require.Contains(t, string(r.Answer.Body), field+" is 513 bytes long, at most 512 are taken")
		}
	}
	l := one(t, receive(`{"google_key":"google-key-0001","lead_id":"\u0000","user_column_data":[{"column_id":"EMAIL","string_value":"a\u0000@example.com"}]}`))
	require.Empty(t, l.LeadID)
	require.NotEmpty(t, l.DedupeKey, "an id of nothing is none")
	require.Equal(t, "a@example.com", l.Contact.Email)
	requireRefused(t, receive(`{"google_key":"google-key-0001","lead_id":"\u0000"}`), 400)
	require.True(t, one(t, receive(`{"google_key":"google-key-0001","lead_id":"\u0000TeSter-123-A"}`)).Test)
}
