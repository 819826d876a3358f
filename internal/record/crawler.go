package record

import (
	"strings"
	"sync"

	"github.com/capiloop/capiloop/capi"
)

// crawlerTokens are what the agents of crawlers, link previews, monitors and driven
// browsers say of themselves, in lower case, beside the word bot. Browsers inside of apps
// (FBAN, FBAV, Instagram, Pinterest, Snapchat, YandexSearch) are people. So are the names
// of HTTP libraries: they stand for a shop's server that passed its own agent on, not for
// a robot in its pages.
var crawlerTokens = []struct{ source, tokens string }{
	{
		"developers.facebook.com/docs/sharing/webmasters/web-crawlers",
		"facebookexternalhit facebookexternalua facebookcatalog facebookplatform meta-externalagent meta-externalfetcher meta-externalads meta-webindexer",
	},
	{
		"developers.google.com/crawling/docs/crawlers-fetchers/overview-google-crawlers",
		"mediapartners-google apis-google feedfetcher-google google-inspectiontool google-safety google-site-verification google-read-aloud googleother googleproducer google-producer google-notebooklm google-pagerenderer duplexweb-google google-adwords google-ads-creatives chrome-lighthouse pagespeed",
	},
	{"www.bing.com/webmasters/help/which-crawlers-does-bing-use-8c184ec0", "bingpreview microsoftpreview skypeuripreview"},
	{"help.yahoo.com/kb/SLN22600.html, yandex.com/support/webmaster/robot-workings/user-agent.html", "slurp yandexmetrika yandexdirectfetcher yandeximages yandexvideo yandexfavicons yandexwebmaster"},
	{"platform.openai.com/docs/bots, docs.perplexity.ai/guides/bots, support.anthropic.com/en/articles/8896518", "chatgpt-user perplexity-user claude-user claude-web anthropic-ai cohere-ai mistralai-user"},
	{"faq.whatsapp.com, api.slack.com/robots, vk.com/dev/share", "slack-imgproxy vkshare embedly iframely flipboardproxy quora-link-preview whatsapp/"},
	{"archive.org/details/archive.org_bot, nutch.apache.org", "ia_archiver heritrix nutch httrack"},
	{"developer.chrome.com/docs/chromium/headless, playwright.dev, pptr.dev", "headlesschrome headlessshell phantomjs slimerjs puppeteer playwright cypress/ selenium webdriver prerender rendertron"},
	{"documentation.uptrends.com, www.site24x7.com, docs.datadoghq.com/synthetics, gtmetrix.com", "pingdom gtmetrix statuscake site24x7 newrelicpinger datadogsynthetics uptrends catchpoint ptst/ checkly"},
	{"ahrefs.com/robot, sitebulb.com, validator.w3.org", "ahrefssiteaudit sitebulb w3c_validator"},
	{"the words by which the others call themselves", "crawler crawling spider"},
}

// crawlerNames are all of them.
var crawlerNames = func() []string {
	var all strings.Builder
	for _, group := range crawlerTokens {
		all.WriteString(group.tokens + " ")
	}
	return strings.Fields(all.String())
}()

const (
	maxAgent  = 512  // bytes of an agent that are looked at
	maxAgents = 8192 // agents that are remembered
)

// crawlers tells robots by their agents. It remembers what it found: a site has few
// agents, each many times.
type crawlers struct {
	mu    sync.RWMutex
	known map[string]bool
}

// visits tells whether an event is a robot's look at a page.
func (c *crawlers) visits(e *capi.Event) bool {
	return e.ActionSource == capi.ActionSourceWebsite && c.is(e.UserData.ClientUserAgent)
}

// is tells whether an agent is a robot's.
func (c *crawlers) is(agent string) bool {
	if agent == "" {
		return false
	}
	if len(agent) > maxAgent {
		agent = agent[:maxAgent]
	}
	c.mu.RLock()
	robot, known := c.known[agent]
	c.mu.RUnlock()
	if known {
		return robot
	}
	robot = isCrawler(strings.ToLower(agent))
	c.mu.Lock()
	if c.known == nil || len(c.known) >= maxAgents {
		c.known = make(map[string]bool)
	}
	c.known[strings.Clone(agent)] = robot // not the whole request that it is a part of
	c.mu.Unlock()
	return robot
}

func isCrawler(agent string) bool {
	for _, name := range crawlerNames {
		if strings.Contains(agent, name) {
			return true
		}
	}
	return isBot(agent)
}

// isBot finds the word bot at the end of a name: Googlebot/2.1, AdsBot-Google, but not
// the phones of Cubot.
func isBot(agent string) bool {
	for rest := agent; ; {
		at := strings.Index(rest, "bot")
		if at < 0 {
			return false
		}
		before, after := rest[:at], rest[at+len("bot"):]
		if !strings.HasSuffix(before, "cu") && (after == "" || (after[0] < 'a' || after[0] > 'z') && (after[0] < '0' || after[0] > '9')) {
			return true
		}
		rest = after
	}
}
