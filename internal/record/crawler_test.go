package record

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
)

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

func TestCrawlersAreTold(t *testing.T) { // C116
	t.Parallel()
	var c crawlers
	for _, agent := range []string{
		"meta-externalagent/1.1", "facebookexternalhit/1.1", "meta-webindexer/1.1", "Googlebot/2.1",
		"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "facebookcatalog/1.0",
		"meta-externalads/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)", "meta-externalfetcher/1.1",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "AdsBot-Google (+http://www.google.com/adsbot.html)",
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 Chrome/W.X.Y.Z Mobile Safari/537.36 (compatible; GoogleOther)",
		"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "Mozilla/5.0 (compatible; Baiduspider/2.0)",
		"Mozilla/5.0 (X11; Linux x64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", "WhatsApp/2.23.20.0 A",
		"Screaming Frog SEO Spider/21.0", "TelegramBot (like TwitterBot)", "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org)",
		"Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Some Robot", "FACEBOOKEXTERNALHIT/1.1",
	} {
		require.True(t, c.is(agent), agent)
		require.True(t, c.is(agent), "from memory: "+agent)
	}
	for _, agent := range []string{
		"", chrome, "Mozilla/5.0",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/490.0.0.0;FBBV/1;FBDV/iPhone15,2;FBMD/iPhone;FBSN/iOS;FBSV/18.0;FBSS/3;FBID/phone;FBLC/en_US;FBOP/5]",
		"Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/142.0 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/490.0.0.0;]",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Instagram 350.0.0.0 (iPhone15,2; iOS 18_0; en_US)",
		"Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 Mobile/15E148 [Pinterest/iOS]", "Mozilla/5.0 (iPhone) Snapchat/12.0.0.0",
		"Mozilla/5.0 (Linux; Android 13; CUBOT NOTE 21) AppleWebKit/537.36 Chrome/120.0 Mobile Safari/537.36", "Mozilla/5.0 (Linux; Android 12; CUBOT_X70)",
		"Mozilla/5.0 (Linux; Android 14) YandexSearch/24.1 YaBrowser/24.1", "okhttp/4.12.0", "GuzzleHttp/7", "Mozilla/5.0 (Windows NT 10.0) bottom",
	} {
		require.False(t, c.is(agent), agent)
	}
}

// What is remembered of agents is bounded, whatever they send.
func TestCrawlersForget(t *testing.T) {
	t.Parallel()
	var c crawlers
	for i := range 3 * maxAgents {
		require.False(t, c.is(fmt.Sprintf("%s %0600d", chrome, i)[600-i%100:]))
		require.LessOrEqual(t, len(c.known), maxAgents)
	}
	for agent := range c.known {
		require.LessOrEqual(t, len(agent), maxAgent)
	}
}

func BenchmarkCrawlers(b *testing.B) {
	var c crawlers
	e := &capi.Event{ActionSource: capi.ActionSourceWebsite, UserData: capi.UserData{ClientUserAgent: chrome}}
	for b.Loop() {
		c.visits(e)
	}
}
