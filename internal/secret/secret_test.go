package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/secret"
)

const token = "not-a-real-token-0123456789"

// holder has secrets everywhere a careless print could find them.
type holder struct {
	Shown  secret.Secret
	hidden secret.Secret
	Inner  *holder
	List   []secret.Secret
	Map    map[string]secret.Secret
	Any    any
}

func newHolder() holder {
	s := secret.New(token)
	return holder{
		Shown: s, hidden: s, Inner: &holder{hidden: s, Any: s},
		List: []secret.Secret{s}, Map: map[string]secret.Secret{"a": s}, Any: &s,
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	h := newHolder()
	for _, v := range []any{h, &h, h.Shown, &h.Shown, h.hidden, h.List, h.Map, fmt.Errorf("refused: %v", h.Shown)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s", "% x"} {
			requireHidden(t, fmt.Sprintf(verb, v))
		}
		requireHidden(t, fmt.Sprint(v), fmt.Sprintln(v))
		text, err := json.Marshal(v)
		require.NoError(t, err)
		requireHidden(t, string(text))
		text, err = yaml.Marshal(v)
		require.NoError(t, err)
		requireHidden(t, string(text))
		for _, handler := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var b bytes.Buffer
			slog.New(handler(&b)).Info("sent", "value", v)
			requireHidden(t, b.String())
		}
	}
}

func requireHidden(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NotContains(t, text, token)
		require.NotContains(t, text, fmt.Sprintf("%x", token))
		require.NotContains(t, text, fmt.Sprintf("%X", token))
		require.NotContains(t, text, token[len(token)-4:])
	}
}

func TestSecretShowsStars(t *testing.T) {
	t.Parallel()
	s := secret.New(token)
	require.Equal(t, "***", s.String())
	require.Equal(t, "***", fmt.Sprintf("%#v", s))
	require.Equal(t, "{Token:***}", fmt.Sprintf("%+v", struct{ Token secret.Secret }{s}))
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Equal(t, `"***"`, string(text))
	require.Empty(t, secret.Secret{}.String())
}

func TestSecretReveal(t *testing.T) {
	t.Parallel()
	require.Equal(t, token, secret.New(token).Reveal())
	require.Empty(t, secret.Secret{}.Reveal())
	require.True(t, secret.New("").IsZero())
	require.False(t, secret.New("a").IsZero())
}

func TestSecretLast4(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "abcd": "", "abcdefghijk": "", "abcdefghijkl": "ijkl", "ключключключ": "ключ",
	} {
		require.Equal(t, want, secret.New(text).Last4(), text)
	}
}

func TestSecretEqual(t *testing.T) {
	t.Parallel()
	require.True(t, secret.New(token).Equal(secret.New(token)))
	require.False(t, secret.New(token).Equal(secret.New(token+"x")))
	require.False(t, secret.New(token).Equal(secret.Secret{}))
	require.True(t, secret.Secret{}.Equal(secret.New("")))
}

func TestSecretIsRead(t *testing.T) {
	t.Parallel()
	var fromJSON, fromYAML struct{ Token secret.Secret }
	require.NoError(t, json.Unmarshal([]byte(`{"token": "a\"b"}`), &fromJSON))
	require.Equal(t, `a"b`, fromJSON.Token.Reveal())
	require.NoError(t, yaml.Unmarshal([]byte(`token: "a: b"`), &fromYAML))
	require.Equal(t, "a: b", fromYAML.Token.Reveal())
}

func TestSecretRefusesItsStars(t *testing.T) {
	t.Parallel()
	var s secret.Secret
	require.ErrorIs(t, s.UnmarshalText([]byte("***")), secret.ErrHidden)
	require.True(t, s.IsZero())
}
