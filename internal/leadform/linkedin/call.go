package linkedin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// fault is an error of LinkedIn's API.
type fault struct {
	status  int
	code    int // serviceErrorCode
	name    string
	message string
	wait    time.Duration
	err     error // of the way there, where no answer came
}

// Error says what LinkedIn said.
func (f *fault) Error() string {
	switch {
	case f.err != nil:
		return "LinkedIn was not reached: " + f.err.Error()
	case f.message == "":
		return fmt.Sprintf("LinkedIn answered with HTTP %d", f.status)
	}
	return fmt.Sprintf("LinkedIn answered with HTTP %d: %s", f.status, f.message)
}

// Unwrap returns what broke on the way.
func (f *fault) Unwrap() error { return f.err }

// get reads an object. The path and query are already encoded: LinkedIn's brackets
// must stay as they are.
func (a api) get(ctx context.Context, path, query string, into any) *fault {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path+"?"+query, nil)
	if err != nil {
		return &fault{err: errors.New("the address of the request cannot be made")}
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("LinkedIn-Version", a.version)
	req.Header.Set("X-Restli-Protocol-Version", "2.0.0")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "capiloop")
	resp, err := a.http.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the outer error prints the address
		}
		return &fault{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return &fault{err: err}
	case len(body) > maxAnswer:
		return &fault{status: resp.StatusCode, message: fmt.Sprintf("the answer is longer than %d bytes", maxAnswer)}
	case resp.StatusCode != http.StatusOK:
		return a.faultOf(resp, body)
	}
	if json.Unmarshal(body, into) != nil { // its error may quote the answer
		return &fault{status: resp.StatusCode, message: "the answer cannot be read"}
	}
	return nil
}

func (a api) faultOf(resp *http.Response, body []byte) *fault {
	var said struct {
		Message string `json:"message"`
		Service int    `json:"serviceErrorCode"`
		Code    string `json:"code"`
	}
	_ = json.Unmarshal(body, &said) // an error page of something between: the status says enough
	message := strings.ReplaceAll(leadform.Clean(said.Message), a.token, "***")
	if r := []rune(message); len(r) > 300 {
		message = string(r[:300])
	}
	f := &fault{status: resp.StatusCode, code: said.Service, name: said.Code, message: message}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		f.wait = min(time.Duration(n)*time.Second, 24*time.Hour)
	}
	return f
}

// failure says what a fault means for the leads that wait. A lead is never refused here.
func failure(doing string, f *fault) *leadform.FetchError {
	a := ledger.Answer{Status: f.status, Code: f.code, Message: f.Error()}
	var o ledger.Outcome = ledger.Hold{Answer: a, Reason: ledger.UnclearRefusal}
	switch {
	case f.status == http.StatusTooManyRequests:
		// A day's quota ends at midnight UTC, a shorter one sooner: the lane backs off by itself.
		o = ledger.RetryAt{Answer: a, Reason: ledger.Throttled, Wait: f.wait}
	case f.status == 0, f.status >= 200 && f.status < 400, f.status == http.StatusRequestTimeout, f.status >= 500:
		o = ledger.RetryAt{Answer: a, Reason: ledger.Backlog, Wait: f.wait}
	case f.status == http.StatusUnauthorized:
		o = ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
	case f.status == http.StatusForbidden:
		o = ledger.Hold{Answer: a, Reason: ledger.PermissionMissing}
	}
	return &leadform.FetchError{Outcome: o, Err: fmt.Errorf("%s: %w", doing, f)}
}

// unset says that the source's settings cannot work.
func unset(err error) *leadform.FetchError {
	return &leadform.FetchError{Outcome: ledger.Hold{Answer: ledger.Answer{Message: err.Error()}, Reason: ledger.TokenInvalid}, Err: err}
}

// ownerQuery is the value of the parameter owner and the type of its leads, or an
// error if the setting is no owner's URN.
func ownerQuery(owner string) (value, leadType string, err error) {
	for kind, typ := range map[string]string{"sponsoredAccount": "SPONSORED", "organization": "COMPANY"} {
		id, ok := strings.CutPrefix(owner, "urn:li:"+kind+":")
		if ok && id != "" && strings.Trim(id, "0123456789") == "" {
			return "(" + kind + ":" + url.QueryEscape(owner) + ")", typ, nil
		}
	}
	return "", "", errors.New("owner must look like urn:li:sponsoredAccount:500000001 or urn:li:organization:500000001, not " + strconv.Quote(cmp.Or(owner, "empty")))
}
