package config

import (
	"errors"
	"time"

	"onced/gateway"
)

// minDrain is the least that SIGTERM waits when no drain_timeout is said.
const minDrain = 10 * time.Second

// completeGateway settles where the gateway listens, which both the setting and
// the file's block can say, and how long a drain lasts. block is nil where the file has none.
func completeGateway(block *gateway.Config, addr *string, drain *time.Duration) error {
	longest := time.Duration(0)
	if block == nil {
		if *addr != "" {
			return errors.New("gateway_addr: is set, but there is no gateway block with routes in the configuration file")
		}
		*addr = DefaultGatewayAddr
	} else {
		if *addr == "" {
			*addr = block.Addr
		}
		if *addr == "" {
			*addr = DefaultGatewayAddr
		}
		block.Addr = *addr
		if err := block.Validate(); err != nil {
			return err // names the block, the route and the field
		}
		longest = block.LongestTimeout()
	}
	if *drain == 0 {
		*drain = max(minDrain, longest)
	}
	return nil
}
