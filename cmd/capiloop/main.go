// Command capiloop is the gateway that tells Meta which leads were good: serve runs
// it, demo shows it, the other commands look after it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the linker.
var version = "development"

// Exit codes: 0 fine, 1 found a problem, 2 wrong usage.
const (
	exitProblem = 1
	exitUsage   = 2
)

// errFound ends a command that has said already what it found.
var errFound = errors.New("found a problem")

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return exitProblem
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown "):
		fmt.Fprintf(errOut, "capiloop: %v\nSee capiloop --help.\n", err)
		return exitUsage
	}
	fmt.Fprintf(errOut, "capiloop: %v\n", err)
	return exitProblem
}

// usageError is a mistake in the command line.
type usageError struct{ error }

func wrongUsage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "capiloop",
		Short: "Tell Meta which leads were good",
		Long: `Capiloop takes events in over HTTP, keeps them safely, and tells Meta's
Conversions API: hashed, deduplicated, once per event. It answers where each
signal went, and why.

Start with   capiloop demo    everything on one machine, without a Meta account
then with    capiloop serve   the gateway itself

Every flag can also be set as an environment variable: --listen is
CAPILOOP_LISTEN. Exit codes: 0 fine, 1 found a problem, 2 wrong usage.`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return flagsFromEnv(cmd) },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newDemo(), newSandbox(), newSend(), newHash(), newLedger(), newFunnel(), newDedup(), newDedupTest(), newStages(), newDeadlines(), newLeads(), newImport(), newBackfill(), newRetry(), newBackup(), newDoctor(), newKey(), newSources(), newRotateKey(), newVersion())
	return root
}

// flagsFromEnv sets the flags that were not given from CAPILOOP_… variables.
func flagsFromEnv(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := "CAPILOOP_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v, ok := os.LookupEnv(name)
		if f.Changed || !ok || err != nil || f.Name == "help" {
			return
		}
		if e := cmd.Flags().Set(f.Name, v); e != nil {
			err = wrongUsage("the environment variable %s cannot be used: %v", name, e)
		}
	})
	return err
}

// oneArgument is cobra.ExactArgs(1) with our exit code and an example.
func oneArgument(example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return wrongUsage("%s takes one argument, got %d. Example: %s", cmd.CommandPath(), len(args), example)
		}
		return nil
	}
}
