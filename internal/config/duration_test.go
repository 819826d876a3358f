package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "24mo": 720 * day, "12h": 12 * time.Hour, "90m": 90 * time.Minute, "10s": 10 * time.Second,
		"0d": 0, "1200mo": 36000 * day,
	} {
		got, err := config.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "30", "d", "mo", "30 d", "-1d", "+1d", "1.5h", "1h30m", "1d12h", "30D", "1y", "1w", "1_0d", "0x1d",
		"36501d", "9999999999999999999d", "99999999999999999999999mo", "1mod", " 1d", "١d",
	} {
		_, err := config.ParseDuration(text)
		require.Error(t, err, text)
	}
}
