package capitest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

func TestFaultCodes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		code, subcode, status int
		transient             string // true, false or absent
		usage                 bool
	}{
		{1, 0, 500, "true", false},
		{2, 0, 503, "true", false},
		{4, 0, 400, "true", true},
		{10, 0, 403, "false", false},
		{17, 0, 400, "true", true},
		{32, 0, 400, "true", true},
		{100, 0, 400, "false", false},
		{100, 33, 400, "false", false},
		{102, 0, 401, "false", false},
		{104, 0, 400, "false", false},
		{190, 0, 401, "absent", false},
		{190, 458, 400, "absent", false},
		{190, 459, 400, "absent", false},
		{190, 460, 400, "absent", false},
		{190, 463, 400, "absent", false},
		{190, 464, 400, "absent", false},
		{190, 467, 400, "absent", false},
		{190, 492, 400, "absent", false},
		{190, 999, 400, "absent", false},
		{200, 0, 403, "false", false},
		{270, 0, 400, "false", false},
		{294, 0, 403, "false", false},
		{299, 0, 403, "false", false},
		{341, 0, 400, "true", true},
		{368, 0, 400, "false", false},
		{613, 0, 400, "true", true},
		{613, 1487742, 400, "true", true},
		{803, 0, 400, "false", false},
		{80004, 0, 400, "true", true},
		{80003, 0, 400, "true", true},
		{100, 2804001, 400, "false", false},
		{100, 2804003, 400, "false", false},
		{100, 2804004, 400, "false", false},
		{100, 2804007, 400, "false", false},
		{100, 2804008, 400, "false", false},
		{100, 2804009, 400, "false", false},
		{100, 2804016, 400, "false", false},
		{100, 2804017, 400, "false", false},
		{100, 2804019, 400, "false", false},
		{100, 2804023, 400, "false", false},
		{100, 2804030, 400, "false", false},
		{100, 2804036, 400, "false", false},
		{100, 2804043, 400, "false", false},
		{100, 2804048, 400, "false", false},
		{100, 2804050, 400, "false", false},
		{100, 2804066, 400, "false", false},
		{100, 2804072, 400, "false", false},
		{100, 2804087, 400, "false", false},
		{5, 12, 400, "false", false},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d/%d", c.code, c.subcode), func(t *testing.T) {
			t.Parallel()
			g, _ := newGraph()
			g.Fault(capitest.Fault{Code: c.code, Subcode: c.subcode, Count: 1, Regain: 7})
			a := post(t, g, website("Lead", "1"))
			require.Equal(t, c.status, a.Status)
			require.Equal(t, fmt.Sprintf("%d/%d", c.code, c.subcode), a.code())
			require.NotEmpty(t, a.Error.Message)
			require.NotContains(t, a.Body, "%s")
			transient := "absent"
			if a.Error.Transient != nil {
				transient = strconv.FormatBool(*a.Error.Transient)
			}
			require.Equal(t, c.transient, transient)
			require.Equal(t, c.usage, strings.Contains(a.Header.Get("X-Business-Use-Case-Usage"), `"estimated_time_to_regain_access":7`))
			require.Equal(t, c.subcode == 33, a.Error.Type == "GraphMethodException")
			require.Empty(t, g.Received())
			require.Equal(t, 200, post(t, g, website("Lead", "1")).Status, "the fault is used up")
		})
	}
}

func TestFaultModes(t *testing.T) {
	t.Parallel()
	one := website("Lead", "1")
	t.Run("server errors", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		g.Fault(capitest.Fault{Code: 500, Count: 1})
		g.Fault(capitest.Fault{Code: 503, Count: 1})
		g.Fault(capitest.Fault{Code: 17, Status: 500, Message: "own words", Count: 1})
		a := post(t, g, one)
		require.Equal(t, "500 1/0", fmt.Sprint(a.Status, " ", a.code()))
		a = post(t, g, one)
		require.Equal(t, "503 2/0", fmt.Sprint(a.Status, " ", a.code()))
		a = post(t, g, one)
		require.Equal(t, "500 17/0 own words", fmt.Sprint(a.Status, " ", a.code(), " ", a.Error.Message))
		require.Equal(t, 200, post(t, g, one).Status)
	})
	t.Run("html and empty", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		g.Fault(capitest.Fault{Mode: capitest.ModeHTML, Count: 1})
		g.Fault(capitest.Fault{Mode: capitest.ModeHTML, Status: 200, Count: 1})
		g.Fault(capitest.Fault{Mode: capitest.ModeEmpty, Count: 1})
		for _, want := range []int{503, 200} {
			a := post(t, g, one)
			require.Equal(t, want, a.Status)
			require.Contains(t, a.Body, "<!DOCTYPE html>")
		}
		a := post(t, g, one)
		require.Equal(t, 502, a.Status)
		require.Empty(t, a.Body)
		require.Empty(t, g.Received())
	})
	t.Run("odd bodies", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		for _, body := range []string{"oops", "{}", `{"error":null}`, `{"error":{"code":100,"error_data":"\"null\""}}`} {
			g.Fault(capitest.Fault{Mode: capitest.ModeBody, Body: body, Count: 1})
			a := post(t, g, one)
			require.Equal(t, 500, a.Status)
			require.Equal(t, body, a.Body)
		}
		require.Empty(t, g.Received())
	})
	t.Run("localised", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		g.Fault(capitest.Fault{Mode: capitest.ModeLocalised, Code: 100, Subcode: 2804003, Count: 1})
		a := post(t, g, one)
		require.Equal(t, "100/2804003", a.code())
		require.Contains(t, a.Error.Title, "évènement")
	})
}

func TestFaultScope(t *testing.T) {
	t.Parallel()
	one := website("Lead", "1")
	t.Run("partial", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		g.Fault(capitest.Fault{Mode: capitest.ModePartial, Received: 2, Count: 2})
		require.Equal(t, 2, *post(t, g, one, website("Lead", "2"), website("Lead", "3")).Events)
		require.Len(t, g.Received(), 2)
		require.Equal(t, 0, *post(t, g, website("Lead", "3")).Events)
		require.Zero(t, g.Times(dataset, "Lead", "3"))
	})
	t.Run("poison", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		g.Fault(capitest.Fault{Mode: capitest.ModePoison, EventID: "2"})
		require.Equal(t, 200, post(t, g, one).Status)
		require.Equal(t, "100/2804001", post(t, g, website("Lead", "3"), website("Lead", "2")).code())
		require.Equal(t, "100/2804001", post(t, g, website("Lead", "2")).code())
		require.Equal(t, 2, g.Faults()[0].Hits)
		require.Len(t, g.Received(), 1)
	})
	t.Run("dataset, count and clearing", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		g.Fault(capitest.Fault{Code: 190, Subcode: 463, Dataset: "other"})
		require.Equal(t, 200, post(t, g, one).Status)
		body := `{"data":[` + strings.ReplaceAll(one, "@", strconv.Itoa(now)) + `]}`
		for range 3 {
			require.Equal(t, "190/463", call(t, g, "POST", "/v26.0/other/events", body).code())
			require.Equal(t, "190/463", call(t, g, "GET", "/v26.0/other?fields=id", "").code())
			require.Equal(t, "190/463", call(t, g, "GET", "/v26.0/dataset_quality?dataset_id=other", "").code())
		}
		g.ClearFaults()
		require.Equal(t, 200, call(t, g, "POST", "/v26.0/other/events", body).Status)
		require.Equal(t, 3, g.Requests().Faults)
	})
	t.Run("by header", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		body := `{"data":[` + strings.ReplaceAll(one, "@", strconv.Itoa(now)) + `]}`
		for header, want := range map[string]string{"190/463": "190/463", "80004": "80004/0", "nonsense": "100/0", "1/x": "100/0"} {
			require.Equal(t, want, call(t, g, "POST", "/1/events", body, "X-Sandbox-Fault", header).code())
		}
		require.Equal(t, 200, call(t, g, "POST", "/1/events", body).Status)
	})
	t.Run("unknown mode", func(t *testing.T) {
		t.Parallel()
		g, _ := newGraph()
		require.Panics(t, func() { g.Fault(capitest.Fault{Mode: "explode"}) })
	})
}

// sendTo posts one event over whatever the client is.
func sendTo(ctx context.Context, c *http.Client, base, id string) (int, error) {
	body := `{"data":[` + strings.ReplaceAll(website("Lead", id), "@", strconv.Itoa(now)) + `]}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v26.0/"+dataset+"/events?access_token=t", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"port", "process"} {
		for _, c := range []struct {
			mode   capitest.Mode
			stored int
		}{{capitest.ModeReset, 1}, {capitest.ModeCut, 0}} {
			t.Run(way+" "+string(c.mode), func(t *testing.T) {
				t.Parallel()
				g, _ := newGraph()
				client, base := &http.Client{Transport: capitest.Transport(g)}, "http://sandbox"
				if way == "port" {
					s := httptest.NewServer(g)
					defer s.Close()
					client, base = s.Client(), s.URL
				}
				g.Fault(capitest.Fault{Mode: c.mode, Count: 1})
				_, err := sendTo(t.Context(), client, base, "1")
				require.Error(t, err)
				require.Equal(t, c.stored, g.Times(dataset, "Lead", "1"))
				status, err := sendTo(t.Context(), client, base, "1")
				require.NoError(t, err)
				require.Equal(t, 200, status)
				require.Equal(t, c.stored+1, g.Times(dataset, "Lead", "1"))
				require.Len(t, g.Kept(dataset), 1)
			})
		}
	}
}

func TestHangOverAPort(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	s := httptest.NewServer(g)
	defer s.Close() // returns only when the hanging request has been let go
	g.Fault(capitest.Fault{Mode: capitest.ModeHang, Count: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := sendTo(ctx, s.Client(), s.URL, "1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, g.Received())
}

func TestHangAndSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGraph()
		client := &http.Client{Transport: capitest.Transport(g)}
		g.Fault(capitest.Fault{Mode: capitest.ModeHang, Count: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := sendTo(ctx, client, "http://sandbox", "1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, g.Times(dataset, "Lead", "1"))

		g.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 5000, Count: 1})
		begin := time.Now()
		status, err := sendTo(t.Context(), client, "http://sandbox", "1")
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, 5*time.Second, time.Since(begin))

		g.Fault(capitest.Fault{Mode: capitest.ModeSlow, DelayMS: 5000, Count: 1})
		brief, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err = sendTo(brief, client, "http://sandbox", "late")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Equal(t, 1, g.Times(dataset, "Lead", "late"), "taken in although nobody waited for the answer")

		g.Fault(capitest.Fault{Mode: capitest.ModeHang})
		done := make(chan error, 1)
		go func() {
			_, err := sendTo(t.Context(), client, "http://sandbox", "2")
			done <- err
		}()
		synctest.Wait()
		g.ClearFaults()
		require.ErrorIs(t, <-done, capitest.ErrCut)
	})
}
