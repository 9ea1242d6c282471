// Machine-readable figures: JSON lines, and rows of a results file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "bench/lab/figure.h"

namespace ibid {

// Replaces the file atomically: readers see either the old or the new contents. An existing file keeps its permissions.
// Error: kIo, nothing changed.
Status write_public_file(const std::string& path, std::string_view text);

// Gives `temporary`, a private file that will be renamed to `path`, the permissions that `path` would have. Reads the
// umask by setting it, so no other thread may create files meanwhile. Error: kIo.
Status give_public_rights(const std::string& temporary, const std::string& path);

// Conditions under which the figures of a run were measured.
struct BenchSetup {
  std::string engine = "ibid";
  std::string model;    // the file's name, without its folder
  std::string machine;  // processor, CPUs
  std::string isa;
  std::string kv;
  std::string numerics;
  std::string command;
  std::string commit;
  std::string date;  // 2026-01-31
  int n_threads = 0;
  size_t rounds = 0;
  double others_percent = 0;  // share of all CPUs that other processes used during the run
};

// Returns a JSON object, which begins with the setup's fields. If rivals measured the same figure, it has the field
// "against": {engine: {value's field, "ratio"}}.
std::string json_line(const BenchSetup& setup, const Figure& figure, std::span<const Rival> rivals);

// Return the header of a results file, and the row of a figure (RFC 4180 quoting), both with line ends.
std::string csv_header();
std::string csv_line(const BenchSetup& setup, const Figure& figure);

// Quotes text as one field of a CSV file.
std::string csv_field(const std::string& text);

// Appends the figures to the results file at `path`. Creates the file if it is missing, and replaces it atomically.
// Errors: kMismatch if the file begins with a different header; kIo.
Status append_to_csv(FileOps& files, const std::string& path, const BenchSetup& setup, std::span<const Figure> figures);

}  // namespace ibid
