package csv_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform/csv"
	"github.com/capiloop/capiloop/internal/ledger"
)

var now = time.Unix(1795000000, 0).UTC()

func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return raw
}

// all reads a file that has nothing wrong.
func all(t *testing.T, raw []byte, o csv.Options) []csv.Row {
	t.Helper()
	o.Now, o.Source, o.Workspace = now, "file", 7
	var rows []csv.Row
	for row, err := range csv.Read(bytes.NewReader(raw), o) {
		require.NoError(t, err)
		require.Equal(t, "csv", row.Lead.Kind)
		require.Equal(t, "file", row.Lead.Source)
		require.Equal(t, int64(7), row.Lead.Workspace)
		rows = append(rows, row)
	}
	return rows
}

// problems reads a file and gives what is wrong with it, and how many rows are right.
func problems(t *testing.T, text string, o csv.Options) (errs []error, good int) {
	t.Helper()
	o.Now = now
	for _, err := range csv.Read(strings.NewReader(text), o) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		good++
	}
	return errs, good
}

func TestMetasExport(t *testing.T) {
	t.Parallel()
	rows := all(t, sample(t, "meta-leads-export.csv"), csv.Options{})
	require.Len(t, rows, 3)
	require.Equal(t, []int{2, 3, 4}, []int{rows[0].Mark.Line, rows[1].Mark.Line, rows[2].Mark.Line})
	l := rows[0].Lead
	require.Equal(t, "987650000012345", l.LeadID)
	require.Equal(t, "meta", l.Platform)
	require.Equal(t, ledger.Origin{
		FormID: "200000000000002", FormName: "Form A", AdID: "300000000000003", AdName: "Ad A", AdSetID: "300000000000002", AdSetName: "Set A",
		CampaignID: "300000000000001", CampaignName: "Campaign A, autumn", Channel: "ig",
	}, l.Origin)
	require.Equal(t, time.Date(2026, 11, 18, 11, 6, 37, 0, time.UTC), l.CreatedAt)
	require.Equal(t, ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Phone: "+12025550143", Email: "ana.lead@example.com"}, l.Contact)
	require.Len(t, l.Answers, 3, "neither inbox_url nor lead_status")
	require.True(t, l.History)
	require.False(t, l.Test)

	l = rows[1].Lead
	require.True(t, l.Origin.Organic)
	require.Equal(t, ledger.Origin{FormID: "200000000000002", FormName: "Form A", Channel: "fb", Organic: true}, l.Origin)
	require.True(t, rows[2].Lead.Test)

	require.False(t, all(t, sample(t, "meta-leads-export.csv"), csv.Options{Live: true})[0].Lead.History)
}

func TestMetasExportInUTF16(t *testing.T) {
	t.Parallel()
	want := all(t, sample(t, "meta-leads-export.csv"), csv.Options{})
	raw := sample(t, "meta-leads-export-utf16.csv")
	swapped := bytes.Clone(raw)
	for i := 0; i+1 < len(swapped); i += 2 {
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
	}
	for name, file := range map[string][]byte{"little": raw, "no mark": raw[2:], "big": swapped, "big, no mark": swapped[2:]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := all(t, file, csv.Options{})
			require.Len(t, rows, 2)
			for i, row := range rows {
				require.Equal(t, want[i].Lead, row.Lead)
			}
		})
	}
}

func TestQuestionsBeforeContact(t *testing.T) {
	t.Parallel()
	rows := all(t, sample(t, "meta-leads-export-custom-questions.csv"), csv.Options{})
	require.Len(t, rows, 1)
	l := rows[0].Lead
	require.Equal(t, "02050", l.Contact.Postcode)
	require.Equal(t, time.Date(2026, 11, 18, 11, 6, 37, 0, time.UTC), l.CreatedAt)
	require.Equal(t, ledger.FormAnswer{Question: "what_are_you_looking_for?", Values: []string{"roof_repair"}}, l.Answers[0])
	require.Equal(t, []string{"within_1_month, maybe"}, l.Answers[1].Values)
}

func TestTheTSVOfTheAPI(t *testing.T) {
	t.Parallel()
	rows := all(t, sample(t, "meta-leads-export-api-tsv.csv"), csv.Options{})
	require.Len(t, rows, 1)
	l := rows[0].Lead
	require.Equal(t, "987650000012346", l.LeadID)
	require.True(t, l.Origin.Organic)
	require.Equal(t, "+34600000000", l.Contact.Phone, "by its prefix, whatever the question is called")
	require.Empty(t, l.Contact.Email, "C090: only keys that are known are mapped by themselves")
	require.Equal(t, ledger.FormAnswer{Question: "correo_electrónico", Values: []string{"jose@example.com"}}, l.Answers[1])

	l = all(t, sample(t, "meta-leads-export-api-tsv.csv"), csv.Options{Columns: map[string]string{"correo_electrónico": "email", "nombre_completo": "full_name"}})[0].Lead
	require.Equal(t, "jose@example.com", l.Contact.Email)
	require.Equal(t, "José Pérez Ejemplo", l.Contact.FullName)
}

func TestAnEditedSheet(t *testing.T) {
	t.Parallel()
	rows := all(t, sample(t, "meta-leads-sheet-edited.csv"), csv.Options{})
	require.Len(t, rows, 1)
	l := rows[0].Lead
	require.Equal(t, "987650000012345", l.LeadID, "found by its form under the header Qualified")
	require.Equal(t, "meta", l.Platform)
	require.Equal(t, "ig", l.Origin.Channel)
	require.Equal(t, "+12025550143", l.Contact.Phone)
	for _, a := range l.Answers {
		require.NotContains(t, a.Question, "value", "money comes by other ways")
	}
}

func TestTikToksDownload(t *testing.T) {
	t.Parallel()
	rows := all(t, sample(t, "tiktok-leads-download.csv"), csv.Options{Zone: time.FixedZone("", 5*3600)})
	require.Len(t, rows, 1)
	l := rows[0].Lead
	require.Equal(t, "7500000000000000123", l.LeadID)
	require.Equal(t, "tiktok", l.Platform)
	require.Equal(t, "7500000000000000200", l.Origin.FormID)
	require.Equal(t, time.Date(2026, 11, 18, 11, 6, 38, 0, time.UTC), l.CreatedAt)
	require.Equal(t, "Ana Example", l.Contact.FullName)
}

func TestAnyTable(t *testing.T) {
	t.Parallel()
	columns := map[string]string{"Changed at": "created_at", "record id": "deal"}
	rows := all(t, sample(t, "generic-crm-stage-export.csv"), csv.Options{Columns: columns, Dates: csv.DayFirst, Zone: time.FixedZone("", 3600)})
	require.Len(t, rows, 2)
	l := rows[0].Lead
	require.Equal(t, "987650000012345", l.LeadID)
	require.Equal(t, time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC), l.CreatedAt)
	require.Equal(t, "+1 202 555 0143", l.Contact.Phone)
	require.Equal(t, ledger.FormAnswer{Question: "deal", Label: "Record ID", Values: []string{"deal-77"}}, l.Answers[0])
	require.Len(t, l.Answers, 3, "neither stage nor amount")
	require.Empty(t, rows[1].Lead.LeadID)
	require.Len(t, rows[1].Lead.DedupeKey, 64)

	errs, good := problems(t, string(sample(t, "generic-crm-stage-export.csv")), csv.Options{Columns: columns})
	require.Zero(t, good)
	require.Len(t, errs, 2)
	require.ErrorContains(t, errs[0], `line 2, column "Changed at": which number of the date is the day cannot be told`)

	_, good = problems(t, "lead,mail\nx,a@example.com", csv.Options{Columns: map[string]string{"lead": "-"}})
	require.Equal(t, 1, good)
	errs, _ = problems(t, "a,b\nx,y", csv.Options{Columns: map[string]string{"c": "email"}})
	require.ErrorContains(t, errs[0], `no column "c"`)
}

func TestFieldsOfTheLead(t *testing.T) {
	t.Parallel()
	l := all(t, []byte("Lead ID;source;E-Mail;Consent;gclid;fbclid;Page URL;Ad Set ID;Is Test;created at\nabc-1;Facebook;a@example.com;no;G;F;https://shop.example.com/?email=a@example.com&x=1;7;1;1794999999\n"),
		csv.Options{Columns: map[string]string{"source": "platform", "Ad Set ID": "adset_id"}})[0].Lead
	require.Equal(t, "abc-1", l.LeadID)
	require.Equal(t, "meta", l.Platform)
	require.Equal(t, ledger.ConsentDenied, l.Consent)
	require.Equal(t, ledger.Clicks{GClid: "G", FBClid: "F"}, l.Clicks)
	require.Equal(t, "https://shop.example.com/?x=1", l.PageURL)
	require.Equal(t, "7", l.Origin.AdSetID)
	require.True(t, l.Test)
	require.Equal(t, time.Unix(1794999999, 0).UTC(), l.CreatedAt)
}

func TestLeadIDs(t *testing.T) { // C082, C084, C166
	t.Parallel()
	for value, want := range map[string]string{
		"l:1234567890123456": "1234567890123456", "1234567890123456.0": "1234567890123456", "12345678901234567": "12345678901234567",
		"9.8765E+14": "", "9,8765e14": "", "l:1E+15": "", "{leadgen_id}": "", "l:12": "", "1234567890123456.5": "",
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			text := "id\tcreated_time\tad_id\tform_id\temail\n" + value + "\t2026-11-18T14:06:37+0300\tag:1\tf:2\ta@example.com\n l:987650000012345 \t\t\t\tb@example.com\n"
			if want != "" {
				rows := all(t, []byte(text), csv.Options{})
				require.Len(t, rows, 2)
				require.Equal(t, want, rows[0].Lead.LeadID)
				return
			}
			errs, good := problems(t, text, csv.Options{})
			require.Equal(t, 1, good, "the next line is read")
			require.Len(t, errs, 1)
			var line *csv.LineError
			require.ErrorAs(t, errs[0], &line)
			require.Equal(t, 2, line.Line)
			require.Equal(t, "id", line.Column)
			require.NotContains(t, line.Error(), "example.com")
			if strings.ContainsAny(value, "Ee") && !strings.Contains(value, "{") {
				require.Contains(t, line.Error(), "scientific notation")
				require.Contains(t, line.Error(), "format the column as text")
			}
		})
	}
}

func TestARoundedAdIsLeftOutWithAWarning(t *testing.T) {
	t.Parallel()
	rows := all(t, []byte("id,created_time,ad_id,form_id,email\nl:987650000012345,2026-11-18 11:00,3E+14,0,a@example.com\n"), csv.Options{})
	require.Empty(t, rows[0].Lead.Origin)
	require.Len(t, rows[0].Warnings, 1)
	require.Equal(t, "ad_id", rows[0].Warnings[0].Column)
}

func TestLinesWithErrors(t *testing.T) {
	t.Parallel()
	errs, good := problems(t, "id,created_time,form_id,email\r\nl:987650000012345,yesterday,,a@example.com\r\n\r\nl:987650000012346,,,b@example.com,,\r\nl:987650000012347,,,c@example.com,more\r\n,,,\r\n,2026-11-18,f:1,\r\nl:987650000012348\r\n", csv.Options{})
	require.Equal(t, 2, good)
	require.Len(t, errs, 3)
	for i, want := range []string{`line 2, column "created_time": it is not a point in time`, "line 5: the line has more values than there are columns", "line 7: the line has neither"} {
		require.ErrorContains(t, errs[i], want)
		require.NotContains(t, errs[i].Error(), "example.com")
	}
}

func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\xef\xbb\xbf", "\n\n", "\xff\xfe", "sep=;"} {
		errs, good := problems(t, text, csv.Options{})
		require.Zero(t, good)
		require.Len(t, errs, 1, "%q", text)
		require.ErrorContains(t, errs[0], "the file is empty")
	}
	errs, good := problems(t, "id,created_time,form_id,email\nl:987650000012345,,,a@example.com\nl:987650000012346,,\"f,b@example.com\nl:987650000012347,,,c@example.com\nl:987650000012348,,,d@example.com\n", csv.Options{})
	require.Equal(t, 1, good)
	require.ErrorContains(t, errs[0], "line 3, column 3: a quotation mark is opened and not closed")
	for _, n := range []int{0, 200} {
		broken := errors.New("the disk is gone")
		var last error
		for _, err := range csv.Read(io.MultiReader(bytes.NewReader(sample(t, "meta-leads-export.csv")[:n]), iotest.ErrReader(broken)), csv.Options{}) {
			last = err
		}
		require.ErrorIs(t, last, broken)
	}
}

func TestSpreadsheetsWays(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"sep line":        "sep=;\r\nemail;Stadt\r\na@example.com;\"Köln, Nord\nSüd\"\r\n",
		"mark":            "\xef\xbb\xbfemail,Stadt\na@example.com,\"Köln, Nord\nSüd\"",
		"Windows-1252":    "email;Stadt\na@example.com;\"K\xf6ln, Nord\nS\xfcd\"\n",
		"quoted headers":  "\"email\",\"Stadt\"\n\"a@example.com\",\"Köln, Nord\nSüd\"\n",
		"quote in a text": "email\tStadt\tpipe\na@example.com\t\"Köln, Nord\nSüd\"\t5\" wide\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := all(t, []byte(text), csv.Options{})
			require.Len(t, rows, 1)
			require.Equal(t, "a@example.com", rows[0].Lead.Contact.Email)
			require.Equal(t, []string{"Köln, Nord\nSüd"}, rows[0].Lead.Answers[1].Values)
			require.Equal(t, now, rows[0].Lead.CreatedAt)
		})
	}
}

func TestGoingOnAfterAMark(t *testing.T) {
	t.Parallel()
	raw := sample(t, "meta-leads-export.csv")
	rows := all(t, raw, csv.Options{})
	for i, row := range rows {
		rest := all(t, raw, csv.Options{After: row.Mark})
		require.Len(t, rest, len(rows)-i-1)
		if len(rest) > 0 {
			require.Equal(t, rows[i+1], rest[0])
		}
	}
	for name, changed := range map[string][]byte{
		"a row above": bytes.Replace(raw, []byte("Ana Example"), []byte("Eve Example"), 1),
		"the header":  bytes.Replace(raw, []byte("full_name"), []byte("name"), 1),
		"a line less": bytes.Replace(raw, []byte("l:987650000012345"), []byte("\nl:987650000012345"), 1),
		"cut off":     raw[:300],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs, good := problems(t, string(changed), csv.Options{After: rows[1].Mark})
			require.Zero(t, good)
			require.Len(t, errs, 1)
			require.ErrorIs(t, errs[0], csv.ErrChanged)
		})
	}
	more := append(bytes.Clone(raw), []byte("l:987650000012400,,,,,,,,,,,,X Example,,x@example.com,,\n")...)
	require.Len(t, all(t, more, csv.Options{After: rows[2].Mark}), 1, "rows added below are read")
}

func TestALongFileIsReadAsItComes(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	go func() {
		fmt.Fprint(write, "id,created_time,form_id,email\n")
		for n := range 20000 {
			if _, err := fmt.Fprintf(write, "l:%d,2026-11-18T14:06:37+03:00,f:1,p%d@example.com\n", 987650000000000+n, n); err != nil {
				return
			}
		}
	}()
	n := 0
	for _, err := range csv.Read(read, csv.Options{}) {
		require.NoError(t, err)
		if n++; n == 19000 { // the writer has not ended
			break
		}
	}
	require.NoError(t, read.Close())
	require.Equal(t, 19000, n)
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.csv")
	require.NoError(f, err)
	for _, name := range files {
		f.Add(sample(f, filepath.Base(name)), false)
	}
	f.Add([]byte("sep=\t\nid\x00\tid\n\"l:1\n"), true)
	f.Fuzz(func(t *testing.T, raw []byte, dayFirst bool) {
		o := csv.Options{Now: now}
		if dayFirst {
			o.Dates = csv.DayFirst
		}
		line := 0
		for row, err := range csv.Read(bytes.NewReader(raw), o) {
			if err != nil {
				continue
			}
			require.Greater(t, row.Mark.Line, line)
			line = row.Mark.Line
			require.True(t, row.Lead.LeadID != "" || row.Lead.DedupeKey != "")
		}
	})
}
