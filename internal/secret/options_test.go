package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/secret"
)

// Whatever the settings and however they are printed, alone or inside of something
// else, nothing of them shows.
func TestOptionsNeverPrint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`zq[a-z]{10}qz`)
		token, item, name, value := word.Draw(t, "token"), word.Draw(t, "item"), word.Draw(t, "name"), word.Draw(t, "value")
		o := secret.NewOptions(map[string]string{name + "1": token}, map[string][]string{name + "2": {item}}, map[string]map[string]string{name + "3": {name: value}})
		type exported struct{ Options secret.Options }
		type hidden struct{ options secret.Options }
		var b bytes.Buffer
		for _, v := range []any{o, &o, exported{o}, &exported{o}, hidden{o}, &hidden{o}, []secret.Options{o}, map[string]secret.Options{"a": o}, []hidden{{o}}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%c"} {
				fmt.Fprintf(&b, verb, v)
			}
			slog.New(slog.NewJSONHandler(&b, nil)).Info("settings", "value", v)
			slog.New(slog.NewTextHandler(&b, nil)).Info("settings", "value", v)
			text, err := json.Marshal(v)
			require.NoError(t, err)
			_, _ = b.Write(text)
		}
		for _, text := range []string{token, item, name, value} {
			require.NotContains(t, b.String(), text)
			require.NotContains(t, b.String(), fmt.Sprintf("%x", text))
		}
	})
}

func TestOptionsAreRead(t *testing.T) {
	t.Parallel()
	o := secret.NewOptions(map[string]string{"page_id": "1", "on": "true", "off": "false"}, map[string][]string{"to": {"a", "b"}}, map[string]map[string]string{"fields": {"x": "y"}})
	require.Equal(t, "1", o.Text("page_id"))
	require.Equal(t, "1", o.Secret("page_id").Reveal())
	require.True(t, o.Is("on"))
	require.False(t, o.Is("off"))
	require.False(t, o.Is("none"))
	require.Equal(t, []string{"a", "b"}, o.List("to"))
	require.Equal(t, map[string]string{"x": "y"}, o.Map("fields"))
	require.Equal(t, []string{"fields", "off", "on", "page_id", "to"}, o.Names())

	other := o.With("page_id", secret.New("2"))
	require.Equal(t, "2", other.Text("page_id"))
	require.Equal(t, "1", o.Text("page_id"), "the one it was made of stays")
	require.Equal(t, []string{"a", "b"}, other.List("to"))
	require.True(t, o.Has("off"))
	require.False(t, o.Has("none"))

	var none secret.Options
	require.Equal(t, "x", none.With("a", secret.New("x")).Text("a"))
	require.Empty(t, none.Names())
	require.Empty(t, none.Text("a"))
	require.Nil(t, none.List("a"))
	require.Nil(t, none.Map("a"))
}

func TestOptionsAreCompared(t *testing.T) {
	t.Parallel()
	build := func(text, item string) secret.Options {
		return secret.NewOptions(map[string]string{"a": text}, map[string][]string{"b": {item}}, nil)
	}
	require.True(t, build("1", "2").Equal(build("1", "2")))
	require.False(t, build("1", "2").Equal(build("1", "3")))
	require.False(t, build("1", "2").Equal(build("2", "2")))
	require.False(t, build("1", "2").Equal(secret.Options{}))
	require.False(t, secret.Options{}.Equal(build("1", "2")))
	require.True(t, secret.Options{}.Equal(secret.NewOptions(nil, nil, nil)))
}
