package intake_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/ledger"
)

// described is what this test reads of the OpenAPI file.
type described struct {
	OpenAPI string                    `yaml:"openapi"`
	Paths   map[string]map[string]any `yaml:"paths"`
	Parts   map[string]map[string]any `yaml:"components"`
}

func readDescribed(t *testing.T) (d described, raw string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/api/openapi.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(b, &d))
	return d, string(b)
}

func TestTheOpenAPIFileDescribesWhatIsServed(t *testing.T) {
	t.Parallel()
	file, raw := readDescribed(t)
	require.Equal(t, "3.1.0", file.OpenAPI)
	var ours []string
	for path, operations := range file.Paths {
		post, _ := operations["post"].(map[string]any)
		if get, ok := operations["get"].(map[string]any); ok && path == "/webhooks/{key}" {
			require.NotEmpty(t, get["operationId"])
		}
		if get, ok := operations["get"].(map[string]any); ok && post == nil {
			post = get
		}
		if tags, _ := post["tags"].([]any); slices.Contains(tags, any("intake")) {
			ours = append(ours, path)
			require.NotEmpty(t, post["operationId"], path)
			require.NotEmpty(t, post["responses"], path)
		}
	}
	require.ElementsMatch(t, intake.Routes(), ours)
	for _, m := range regexp.MustCompile(`#/components/(\w+)/(\w+)`).FindAllStringSubmatch(raw, -1) {
		require.Contains(t, file.Parts[m[1]], m[2], "a reference into the void")
	}
	d := open(t)
	for _, path := range intake.Routes() {
		target := strings.NewReplacer("{version}", "v26.0", "{dataset}", datasetOne, "{key}", hookKey("one", "forms")).Replace(path)
		require.Equal(t, http.StatusMethodNotAllowed, d.do(t, http.MethodDelete, target, nil).Code, "%s is served, but not by DELETE", path)
	}
}

func TestExamplesOfTheOpenAPIFileAreAccepted(t *testing.T) {
	t.Parallel()
	file, _ := readDescribed(t)
	for path, want := range map[string]int{"/v1/events": http.StatusAccepted, "/v1/leads": http.StatusCreated, "/v1/stages": http.StatusCreated, "/v1/consent": http.StatusOK, "/t": http.StatusNoContent} {
		post := file.Paths[path]["post"].(map[string]any)
		content := post["requestBody"].(map[string]any)["content"].(map[string]any)
		examples := content["application/json"].(map[string]any)["examples"].(map[string]any)
		require.NotEmpty(t, examples)
		for name, e := range examples {
			body, err := json.Marshal(e.(map[string]any)["value"])
			require.NoError(t, err)
			a := open(t).call(http.MethodPost, path, strings.NewReader(string(body)),
				"Authorization", "Bearer "+keyOne, "Content-Type", "application/json", "Origin", origin)
			require.Equal(t, want, a.Code, "%s: %s", name, a.Body.String())
			if a.Code != http.StatusNoContent {
				require.NoError(t, json.Unmarshal(a.Body.Bytes(), &a.parsed))
			}
			rejected := a.at("rejected")
			require.True(t, rejected == nil || rejected == 0.0 || len(rejected.([]any)) == 0, name)
		}
	}
}

func TestExamplesOfTheAPIPageAreAccepted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)<!-- POST (\\S+) (\\d+) -->\n```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, found, strings.Count(string(page), "<!-- POST "))
	require.NotEmpty(t, found)
	for _, m := range found {
		want, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		headers := []string{"Content-Type", "application/json", "Authorization", "Bearer " + keyOne}
		if strings.Contains(m[3], "accessKey") || strings.HasPrefix(m[1], "/webhooks/") {
			headers = headers[:2]
		}
		target := strings.Replace(m[1], "{key}", hookKey("one", "open"), 1)
		a := open(t).do(t, http.MethodPost, target, strings.NewReader(strings.ReplaceAll(m[3], "THE-API-KEY", keyOne)), headers...)
		require.Equal(t, want, a.Code, "%s: %s", m[3], a.Body.String())
		if m[1] == "/v1/events" {
			require.Empty(t, a.at("rejected"))
		}
	}
}

// An error's fix that shows an event must show one that is taken.
func TestTheExampleInErrorsIsAccepted(t *testing.T) {
	t.Parallel()
	d := open(t)
	fix := d.post(t, "").at("error", "fix").(string)
	event := fix[strings.Index(fix, "{") : strings.Index(fix, "}}")+2]
	a := d.post(t, event)
	require.Equal(t, http.StatusAccepted, a.Code, a.Body.String())
}

// Every effect of a stage change stands in the OpenAPI file and on the page.
func TestTheEffectsOfStageChangesAreDescribed(t *testing.T) {
	t.Parallel()
	file, _ := readDescribed(t)
	taken := file.Parts["schemas"]["StageTaken"].(map[string]any)["properties"].(map[string]any)["effect"].(map[string]any)["enum"].([]any)
	want := []any{"rejected"}
	page, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	for effect := range ledger.Effects() {
		want = append(want, string(effect))
		require.Contains(t, string(page), "`"+string(effect)+"`")
	}
	require.ElementsMatch(t, want, taken)
}
