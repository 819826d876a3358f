package csv_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"

	"github.com/capiloop/capiloop/internal/leadform/csv"
)

func TestRowsOfATable(t *testing.T) {
	t.Parallel()
	plain := sample(t, "generic-crm-stage-export.csv")
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes(plain)
	require.NoError(t, err)
	for name, file := range map[string][]byte{"plain": plain, "utf-16": wide, "mark": append([]byte("\xef\xbb\xbf"), plain...), "tabs": bytes.ReplaceAll(plain, []byte(";"), []byte("\t"))} {
		var rows []csv.Record
		for row, err := range csv.Table(bytes.NewReader(file)) {
			require.NoError(t, err, name)
			rows = append(rows, row)
		}
		require.Len(t, rows, 2, name)
		require.Equal(t, 2, rows[0].Line)
		require.Equal(t, map[string]string{
			"Record ID": "deal-77", "Lead ID": "987650000012345", "Email": "ana.lead@example.com", "Phone": "+1 202 555 0143", "Stage": "Closed Won",
			"Amount": "1.500,50", "Currency": "EUR", "Changed at": "25/11/2026 10:00",
		}, rows[0].Values, name)
		require.NotContains(t, rows[1].Values, "Amount")
		require.NotEqual(t, rows[0].Sum, rows[1].Sum)
	}
}

func TestFaultyRowsOfATable(t *testing.T) {
	t.Parallel()
	var lines []int
	good := 0
	for row, err := range csv.Table(strings.NewReader("Stage,Note,Note\n\nWon,,b\nLost,a,b,c\nWon,,b\n")) {
		if line, ok := errors.AsType[*csv.LineError](err); ok {
			lines = append(lines, line.Line)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, map[string]string{"Stage": "Won", "Note": "b"}, row.Values)
		good++
	}
	require.Equal(t, []int{4}, lines)
	require.Equal(t, 2, good)
	for _, text := range []string{"", "Stage,Note,By\nWon,\"a,b,c\nLost,d,e\n"} {
		n := 0
		for _, err := range csv.Table(strings.NewReader(text)) {
			require.Error(t, err)
			n++
		}
		require.Equal(t, 1, n, text)
	}
	for row, err := range csv.Table(strings.NewReader("Stage\nWon\nLost\n")) {
		require.NoError(t, err)
		require.Equal(t, 2, row.Line)
		break
	}
}
