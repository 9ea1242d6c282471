// `ibid bench --what serve`: puts a load of several users (serve_load.h) on a server, and reports the results. Starts a
// server, or uses one that is running.
#pragma once

#include <string>
#include <vector>

#include "apps/bench/serve_load.h"
#include "apps/models/model_arguments.h"
#include "base/result.h"
#include "bench/lab/figure.h"
#include "bench/lab/report.h"

namespace ibid {

struct ServeBenchArguments {
  LoadShape shape;
  std::string url;              // URL of the server to measure; empty: start one
  std::string kv_budget = "0";  // KV budget of a started server, as in `ibid serve`
  std::string api_key_file;
  std::string engine;    // name of the server in results; empty: the name it reports
  std::string requests;  // file of JSON lines, one per request; empty: not written
};

// Returns the figures: latencies of users, throughput and cache use. REQUIRES: at least one request was answered.
std::vector<Figure> figures_of(const LoadResult& result, const LoadShape& shape);

// Returns the table, ending with a newline.
std::string table_of(const LoadResult& result, const LoadShape& shape);

// Returns a line for each request: {"engine", "what": "serve_request", "user", "round", ...} with start, times, tokens,
// and the failure if the request failed.
std::string request_lines(const LoadResult& result, const std::string& engine);

// True if the address is local, so that client and server share CPUs.
bool is_this_machine(const ServerAddress& address);

// Where the results are written, and which of them.
struct ServeBenchOutput {
  bool json = false;
  std::string csv;  // results file to append to; empty: not written
};
// Runs the load and prints the results. model: the model of a started server. setup: machine and build, for the
// results. Errors: those of starting the server and of ChatServer::models(); kIo: no request was answered, or a file
// cannot be written.
Status run_serve_bench(const ServeBenchArguments& arguments, const ModelArguments& model, BenchSetup setup,
                       const ServeBenchOutput& output);

}  // namespace ibid
