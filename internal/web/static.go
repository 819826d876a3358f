package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
)

//go:embed static/*
var staticFiles embed.FS

// asset is a file beside the pages. Its address carries its fingerprint, so that it
// can be kept for ever and is still new after an update.
type asset struct {
	url, kind string
	body      []byte
}

func loadStatic() (map[string]asset, error) {
	files, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, fmt.Errorf("read the pages' files: %w", err)
	}
	list := make(map[string]asset, len(files))
	for _, f := range files {
		b, err := staticFiles.ReadFile("static/" + f.Name())
		if err != nil {
			return nil, fmt.Errorf("read the pages' files: %w", err)
		}
		sum := sha256.Sum256(b)
		kind := mime.TypeByExtension(path.Ext(f.Name()))
		list[f.Name()] = asset{url: "/static/" + f.Name() + "?v=" + hex.EncodeToString(sum[:6]), kind: kind, body: b}
	}
	return list, nil
}

func (h *Handler) showStatic(w http.ResponseWriter, r *http.Request) {
	a, ok := h.static[r.PathValue("file")]
	if !ok {
		h.problem(w, r, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	if r.URL.RequestURI() == a.url {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(a.body)
}
