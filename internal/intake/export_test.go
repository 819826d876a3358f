package intake

// Remembered tells how many addresses are kept that have tried wrong keys.
func (h *Handler) Remembered() int {
	h.guesses.mu.Lock()
	defer h.guesses.mu.Unlock()
	return len(h.guesses.wrong)
}
