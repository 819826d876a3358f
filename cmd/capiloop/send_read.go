package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/capi"
)

// maxLine is how long one event may be; the server takes no more.
const maxLine = 1 << 20

// readJSONLines calls found for each line of JSON; a line that is none is a fault of
// that line only.
func readJSONLines(in io.Reader, found func(numbered, error) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\uFEFF")))
		if len(line) == 0 {
			continue
		}
		var fault error
		if !json.Valid(line) || line[0] != '{' {
			fault = errors.New("not a JSON object; each line is one event")
		}
		if err := found(numbered{n, bytes.Clone(line)}, fault); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes: each line is one event", maxLine)
	}
	return lines.Err()
}

// customFields are the columns that belong into custom_data by Meta's names.
var customFields = []string{
	"value", "currency", "content_ids", "contents", "content_type", "content_name", "content_category", "status", "delivery_category",
	"num_items", "order_id", "search_string", "predicted_ltv", "net_revenue", "item_number", "lead_event_source", "event_source",
}

// eventFields are the columns that stand at the top of an event; dataset and
// consent are ours.
var eventFields = []string{
	"event_name", "event_time", "event_id", "action_source", "event_source_url", "referrer_url", "opt_out", "dataset", "consent",
}

// readCSV calls found for each row of a CSV file with a header, separated by
// commas, semicolons or tabs.
func readCSV(in io.Reader, found func(numbered, error) error) error {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if bom, _ := buffered.Peek(3); string(bom) == "\uFEFF" {
		_, _ = buffered.Discard(3)
	}
	rows := csv.NewReader(buffered)
	rows.Comma = separator(buffered)
	rows.FieldsPerRecord = -1
	rows.LazyQuotes = true
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("read the CSV header: %w", err)
	}
	for i := range header {
		header[i] = strings.ToLower(strings.TrimSpace(header[i]))
	}
	if !slices.Contains(header, "event_name") {
		return fmt.Errorf("the CSV has no column event_name; its columns are: %s", strings.Join(header, ", "))
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, _ := rows.FieldPos(0)
		var parse *csv.ParseError
		switch {
		case errors.As(err, &parse):
			err = found(numbered{line: parse.Line}, parse.Err)
		case err != nil:
			return fmt.Errorf("read the CSV: %w", err)
		default:
			event, fault := eventOf(header, row)
			err = found(numbered{line, event}, fault)
		}
		if err != nil {
			return err
		}
	}
}

// separator looks at the header for what separates the columns.
func separator(in *bufio.Reader) rune {
	head, _ := in.Peek(4096)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	best, most := ',', bytes.Count(line, []byte(","))
	for _, c := range []rune{';', '\t'} {
		if n := bytes.Count(line, []byte(string(c))); n > most {
			best, most = c, n
		}
	}
	return best
}

// eventOf makes an event of a row. Empty cells are left out.
func eventOf(header, row []string) (json.RawMessage, error) {
	if len(row) > len(header) {
		return nil, fmt.Errorf("the row has %d columns, the header %d: is a text with the separator not in quotes?", len(row), len(header))
	}
	event, user, custom := map[string]any{}, map[string]any{}, map[string]any{}
	for i, cell := range row {
		name := header[i]
		if cell = strings.TrimSpace(cell); cell == "" || name == "" {
			continue
		}
		short := strings.TrimPrefix(strings.TrimPrefix(name, "user_data."), "custom_data.")
		switch _, err := capi.ParseKeySet(short); {
		case strings.HasPrefix(name, "custom_data."), slices.Contains(customFields, short):
			custom[short] = cell
		case strings.HasPrefix(name, "user_data."), strings.HasPrefix(name, "sha256_"), err == nil:
			user[short] = cell
		case slices.Contains(eventFields, name):
			event[name] = cell
		default:
			custom[name] = cell
		}
	}
	event["user_data"] = user
	if len(custom) > 0 {
		event["custom_data"] = custom
	}
	return json.Marshal(event)
}
