package meta

// SweepForm lets a test choose how many leads are held at once.
var SweepForm = sweepForm
