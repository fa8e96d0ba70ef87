//go:build linux

// Command chaos harms a cluster of real processes while clients use it, and judges what they were told. scripts/chaos
// runs it.
//
// Invariants:
//
//   - The seed decides what is done. It is printed first, and again with every violation.
//   - A run that finds a violation keeps what it knows in a directory that it names, and ends with exit code 1.
//   - What cannot be had on a machine is said aloud, never left out silently. Exit code 77 says that nothing could be run
//     as it was asked for.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"onced/chaos/lab"
	"onced/chaos/nemesis"
)

// options are the command line.
type options struct {
	Duration time.Duration `default:"2m" help:"How long the cluster is harmed (${default}); the checks come on top."`
	Long     bool          `help:"An hour of every fault, each also alone, with both kinds of log in turn. Tells how far it is every 10 s."`
	Seed     uint64        `help:"Decides everything that is done; 0 = a new one."`
	Faults   []string      `placeholder:"NAME,…" help:"Only these faults; a name that ends in * stands for all that begin so."`
	List     bool          `help:"List the faults and end."`
	Round    time.Duration `default:"25s" help:"Length of a round, after which everything is healed and checked (${default})."`
	Mixed    float64       `default:"0.35" help:"Share of the times that two faults come at once (${default})."`
	LogStore string        `enum:",bolt,wal,both" default:"" help:"What the nodes' logs lie in: wal (the default), bolt, or both in turn (the default with --long), a new cluster each time."`
	Compose  bool          `help:"Containers of the shipped image instead of processes, by docker-compose.yml; the faults that need a build of their own are left out."`
	Out      string        `placeholder:"DIR" type:"path" help:"Write the report there too, as campaign.md and campaign.json."`
	Clients  float64       `default:"1" help:"How many clients, as a multiple of the standard (${default})."`
	Plant    string        `placeholder:"NAME" help:"Build a bug in, see --prove."`
	Prove    bool          `help:"Build each known bug in, one after the other, and run until it is caught."`
	Keep     bool          `help:"Keep the directory also when nothing was found."`
	Binary   string        `placeholder:"FILE" help:"A command onced that was built already, with the tag faults, and planted for --plant."`
	Verdict  string        `hidden:"" placeholder:"FILE" help:"Where to say, as JSON, what was found."`
	Isolated bool          `help:"End with 77 where there are no network namespaces, instead of going on without."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("scripts/chaos"), kong.Description("Harms a cluster of three real processes while clients use it, and judges what they were told."),
		kong.UsageOnError())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends the round, a second one everything
	switch err := run(ctx, o); {
	case err == nil:
	case errors.Is(err, errViolation):
		os.Exit(1)
	case errors.Is(err, errImpossible):
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		os.Exit(77)
	default:
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		os.Exit(2)
	}
}

var (
	errViolation  = errors.New("a promise was broken")
	errImpossible = errors.New("this machine cannot do it")
)

func run(ctx context.Context, o options) error {
	if o.List {
		for _, f := range nemesis.All {
			fmt.Printf("%-18s %s\n", f.Name, f.About)
		}
		return nil
	}
	faults, err := nemesis.Named(o.Faults)
	if err != nil {
		return err
	}
	if o.Plant != "" {
		if _, err := plantNamed(o.Plant); err != nil {
			return err
		}
	}
	if o.Long {
		o.Duration = time.Hour
	}
	if err := o.lasts(); err != nil {
		return err
	}
	if o.LogStore == "" {
		o.LogStore = map[bool]string{true: "both", false: "wal"}[o.Long]
	}
	if o.Compose {
		return contained(ctx, o, faults)
	}
	if !lab.Inside() {
		dir, err := os.MkdirTemp("", "onced-chaos-")
		if err != nil {
			return err
		}
		if err := prepare(ctx, &o, dir); err != nil {
			remove(dir)
			return err
		}
		if o.Prove {
			return prove(ctx, o, dir)
		}
		if err := enter(o, dir); err != nil {
			remove(dir)
			return err
		}
	}
	o.Binary = os.Getenv(binaryEnv)
	return start(ctx, o, faults, os.Getenv(dirEnv))
}

// lasts refuses a campaign of no length, which would harm nothing and so find nothing.
func (o options) lasts() error {
	if o.Duration <= 0 || o.Round <= 0 {
		return fmt.Errorf("--duration is %s and --round %s: expected more than 0s", o.Duration, o.Round)
	}
	return nil
}

// again is the command line that does the same once more; o.Seed is the one that was used.
func (o options) again() string {
	said := []string{"scripts/chaos", "--seed", fmt.Sprint(o.Seed), "--log-store", o.LogStore, "--round", o.Round.String(), "--mixed", fmt.Sprint(o.Mixed), "--clients", fmt.Sprint(o.Clients)}
	if o.Long {
		said = append(said, "--long") // says the duration too
	} else {
		said = append(said, "--duration", o.Duration.String())
	}
	if len(o.Faults) > 0 {
		said = append(said, "--faults", "'"+strings.Join(o.Faults, ",")+"'")
	}
	if o.Plant != "" {
		said = append(said, "--plant", o.Plant)
	}
	if o.Compose {
		said = append(said, "--compose")
	}
	return strings.Join(said, " ")
}

func start(ctx context.Context, o options, faults []nemesis.Fault, dir string) error {
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	c := &campaign{options: o, faults: faults, dir: dir}
	return c.run(ctx)
}

// contained runs a campaign over containers, from this process's own network.
func contained(ctx context.Context, o options, faults []nemesis.Fault) error {
	if o.Prove || o.Plant != "" || o.Binary != "" {
		return errors.New("--compose has the shipped image: expected none of --prove, --plant and --binary")
	}
	if err := lab.Containers(); err != nil {
		return fmt.Errorf("%w: %w", errImpossible, err)
	}
	dir, err := os.MkdirTemp("", "onced-chaos-")
	if err != nil {
		return err
	}
	return start(ctx, o, faults, dir)
}

// How a process hands to itself, when it starts anew in namespaces, what it has built.
const (
	binaryEnv = "ONCED_CHAOS_BINARY"
	dirEnv    = "ONCED_CHAOS_DIR"
)

// prepare builds the command, unless there is one.
func prepare(ctx context.Context, o *options, dir string) (err error) {
	if impossible := lab.Possible(); impossible != nil && o.Isolated {
		return fmt.Errorf("%w: %w", errImpossible, impossible)
	}
	if o.Binary != "" {
		return nil
	}
	tags := "faults"
	if o.Prove || o.Plant != "" {
		tags += ",planted"
	}
	o.Binary, err = build(ctx, dir, tags)
	return err
}

// enter goes on in namespaces, where there are some; it does not return then.
func enter(o options, dir string) error {
	os.Setenv(dirEnv, dir)
	os.Setenv(binaryEnv, o.Binary)
	impossible := lab.Possible()
	if impossible == nil {
		impossible = lab.Enter()
	}
	if o.Isolated {
		return fmt.Errorf("%w: %w", errImpossible, impossible)
	}
	fmt.Printf("NO NETWORK NAMESPACES HERE: %v.\nThe nodes listen on loopback; the faults of networks and of full disks are left out.\n", impossible)
	return nil
}

// remove removes a run's directory, but for what failed.
func remove(dir string) {
	if strings.Contains(dir, "onced-chaos-") {
		os.RemoveAll(dir)
	}
}
