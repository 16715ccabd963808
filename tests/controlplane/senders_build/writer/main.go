// Command writer sends samples by remote-write 2.0 with Prometheus' own client library.
// Its first argument is the address; each line of its input is a time in milliseconds, a value, and labels as name=value.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/exp/api/remote"
	writev2 "github.com/prometheus/client_golang/exp/api/remote/genproto/v2"
)

func main() {
	api, err := remote.NewAPI(os.Args[1], remote.WithAPIPath("api/v1/write"))
	if err != nil {
		log.Fatal(err)
	}
	symbols, request := writev2.NewSymbolTable(), &writev2.Request{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		at, _ := strconv.ParseInt(words[0], 10, 64)
		value, _ := strconv.ParseFloat(words[1], 64)
		labels := []string{}
		for _, word := range words[2:] {
			name, text, _ := strings.Cut(word, "=")
			labels = append(labels, name, text)
		}
		request.Timeseries = append(request.Timeseries, &writev2.TimeSeries{
			LabelsRefs: symbols.SymbolizeLabels(labels, nil),
			Samples:    []*writev2.Sample{{Value: value, Timestamp: at}},
		})
	}
	request.Symbols = symbols.Symbols()
	written, err := api.Write(context.Background(), remote.WriteV2MessageType, request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(written.Samples)
}
