package capi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCatalogueIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[codes]bool{}
	for _, x := range Catalogue() {
		id := codes{x.Code, x.Subcode}
		require.False(t, seen[id], "%v stands twice", id)
		seen[id] = true
		require.NotEmpty(t, x.Title, id)
		require.NotEmpty(t, x.Cause, id)
		require.NotEmpty(t, x.NextStep, id)
		require.NotEmpty(t, x.Owner, id)
		require.Equal(t, handlingOf(x.Class), x.Retried, id)
		require.Equal(t, x, Explain(x.Code, x.Subcode))
	}
	for _, id := range []codes{
		{1, 0},
		{2, 0},
		{4, 0},
		{17, 0},
		{32, 0},
		{341, 0},
		{613, 0},
		{613, 1487742},
		{21009, 0},
		{190, 0},
		{190, 458},
		{190, 459},
		{190, 460},
		{190, 463},
		{190, 464},
		{190, 467},
		{190, 492},
		{102, 0},
		{104, 0},
		{10, 0},
		{200, 0},
		{3, 0},
		{294, 0},
		{270, 0},
		{803, 0},
		{368, 0},
		{100, 33},
		{100, 2804003},
		{100, 2804009},
		{100, 2804016},
		{100, 2804036},
		{100, 2804043},
		{100, 2804050},
		{100, 2804066},
		{100, 2804072},
		{100, 2804087},
		{100, 2804030},
		{100, 1815356},
		{100, 2804001},
	} {
		require.True(t, seen[id], "%v is missing", id)
	}
}

func TestExplainFamilies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, subcode int
		class         Class
	}{
		{190, 999, ClassAccess},
		{250, 3, ClassAccess},
		{199, 0, ClassUnclear},
		{300, 0, ClassUnclear},
		{80001, 0, ClassThrottled},
		{80015, 0, ClassUnclear},
		{100, 2804999, ClassPayload},
		{100, 2805000, ClassUnclear},
		{0, 0, ClassUnclear},
		{-1, -1, ClassUnclear},
		{613, 1, ClassThrottled},
		{803, 33, ClassAccess},
	} {
		x := Explain(c.code, c.subcode)
		require.Equal(t, c.class, x.Class, c)
		require.Equal(t, c.code, x.Code)
		require.Equal(t, c.subcode, x.Subcode)
		require.NotEmpty(t, x.Title)
	}
}

func TestCatalogueTextsFitIntoSentences(t *testing.T) {
	t.Parallel()
	for _, x := range Catalogue() {
		for _, text := range []string{x.Title, x.Cause, x.NextStep} {
			require.NotRegexp(t, `^\s|[.\s]$`, text)
		}
	}
}
