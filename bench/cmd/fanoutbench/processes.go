package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/store/embedded"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/floor"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// processes returns the commands that a benchmark starts as processes of this program.
func processes() []*cobra.Command {
	return []*cobra.Command{copyCommand(), loadCommand(), callsCommand(), etcdCommand(), embeddedCommand(), emptyCommand(), floorCommand(), natsCommand()}
}

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use: load.CommandName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return load.Run(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
}

func callsCommand() *cobra.Command {
	return &cobra.Command{
		Use: calls.CommandName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return calls.Run(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
}

// embeddedCommand runs the etcd that fanoutd has in its process, without fanoutd.
func embeddedCommand() *cobra.Command {
	var config embedded.Config
	cmd := &cobra.Command{
		Use: peer.CommandEmbedded, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			member, err := embedded.Start(cmd.Context(), config, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			<-cmd.Context().Done()
			return member.Close(context.WithoutCancel(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&config.Dir, "dir", "", "data directory")
	cmd.Flags().StringVar(&config.ListenClient, "listen", "", "address to listen on")
	return cmd
}

// emptyCommand runs a server of grpc-go whose only method does nothing.
func emptyCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: peer.CommandEmpty, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			return calls.ServeEmpty(cmd.Context(), listener)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address to listen on")
	return cmd
}

// etcdCommand runs etcd with the flags of etcd; "etcd grpc-proxy start" runs its proxy.
func etcdCommand() *cobra.Command {
	return &cobra.Command{
		Use: peer.CommandEtcd, Hidden: true, DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			os.Args = append([]string{"etcd"}, args...) // the proxy reads its flags from there
			etcdmain.Main(os.Args)
		},
	}
}

func floorCommand() *cobra.Command {
	var listen, etcd, prefix string
	var snapshot bool
	cmd := &cobra.Command{
		Use: peer.CommandFloor, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
			if err != nil {
				return fmt.Errorf("connect to etcd: %w", err)
			}
			defer client.Close()
			listener, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			first := floor.First
			if snapshot {
				first = func() ([]byte, error) { return floor.Snapshot(cmd.Context(), client, prefix) }
			}
			server := floor.New(listener, first)
			served := make(chan error, 1)
			go func() { served <- server.Run() }()
			err = server.Follow(cmd.Context(), client, prefix)
			server.Close()
			if err != nil {
				return err
			}
			return <-served
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "", "address to listen on")
	flags.StringVar(&etcd, "etcd", "", "address of etcd")
	flags.StringVar(&prefix, "prefix", "", "prefix of the keys to deliver")
	flags.BoolVar(&snapshot, "snapshot", false, "send the state of the moment when the first stream opens")
	return cmd
}
