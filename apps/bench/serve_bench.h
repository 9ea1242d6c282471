// `ibid bench --what serve`: a load of several people (serve_load.h) on a server of its own or on one that runs, and
// what it prints and writes of it.
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
  std::string url;  // empty: a server of its own
  std::string kv_budget = "0";  // of a server of its own, as in `ibid serve`
  std::string api_key_file;
  std::string engine;    // what the rows call the server; empty: what it says of itself
  std::string requests;  // a file with a line for each request; empty: none
};

// Figures of the result: what people wait for, and what it took. At least one request was answered.
std::vector<Figure> figures_of(const LoadResult& result, const LoadShape& shape);

// The table, with a line end behind it.
std::string table_of(const LoadResult& result, const LoadShape& shape);

// A line for each request: user, round, start, times, tokens, why it failed; under a header.
std::string requests_csv(const LoadResult& result, const std::string& engine);

// Whether the address is of this machine, so that client and server share its CPUs.
bool is_this_machine(const ServerAddress& address);

// Runs it and prints it. model: of the server of its own. setup: what the rows say of machine and build.
// Errors: those of starting the server and of ChatServer::models(); kIo: no request was answered, or a file cannot be
// written.
struct ServeBenchOutput {
  bool json = false;
  std::string csv;  // a results file to append to; empty: none
};
Status run_serve_bench(const ServeBenchArguments& arguments, const ModelArguments& model, BenchSetup setup,
                       const ServeBenchOutput& output);

}  // namespace ibid
