// Figures as programs read them: JSON lines, lines of a results file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "bench/lab/figure.h"

namespace ibid {

// The whole file at once: a reader sees the old one or the new one. One that is there keeps its rights.
// Error: kIo; then nothing has changed.
Status write_public_file(const std::string& path, std::string_view text);

// The same rights for `temporary`, a private file that will be renamed to `path`. The umask is read by setting it: no
// other thread may create files meanwhile. Error: kIo.
Status give_public_rights(const std::string& temporary, const std::string& path);

// How the figures of a run were made.
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
  double others_percent = 0;  // of the CPUs, which other processes had meanwhile
};

// One object with the setup's fields in front. With rivals: "against": {engine: {value's field, "ratio"}}.
std::string json_line(const BenchSetup& setup, const Figure& figure, std::span<const Rival> rivals);

// The columns of a results file, and a figure's line in it (RFC 4180 quoting), both with their line end.
std::string csv_header();
std::string csv_line(const BenchSetup& setup, const Figure& figure);

// Text as one field of such a file.
std::string csv_field(const std::string& text);

// Appends the figures to the results file at `path`, which is made when it is not there; it is replaced
// atomically. Errors: kMismatch when the file begins with another header; kIo.
Status append_to_csv(FileOps& files, const std::string& path, const BenchSetup& setup,
                     std::span<const Figure> figures);

}  // namespace ibid
