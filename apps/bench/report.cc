#include "apps/bench/report.h"

#include <algorithm>
#include <cstdio>

namespace ibid {

namespace {

constexpr size_t kNameWidth = 32;
constexpr size_t kValueWidth = 16;
constexpr size_t kQuartilesWidth = 16;
constexpr size_t kThroughputWidth = 15;
constexpr size_t kPercentWidth = 6;
constexpr size_t kRivalWidth = 14;
constexpr size_t kRatioWidth = 8;
constexpr uint64_t kMaxCsvBytes = 256'000'000;

std::string left(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(const std::string& text, size_t width) {
  return std::string(std::max(width, text.size() + 1) - text.size(), ' ') + text;
}

// Enough digits to compare, never an exponent.
std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
  return text;
}

std::string without_trailing_blanks(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

std::string throughput_unit(const Throughput& throughput) {
  return std::string_view(throughput.field) == "gbps" ? " GB/s" : " GOP/s";
}

}  // namespace

std::string table_header(std::span<const Rival> rivals) {
  std::string line = left("", kNameWidth) + right("median", kValueWidth) +
                     right("quartiles", kQuartilesWidth) + right("throughput", kThroughputWidth) +
                     right("peak", kPercentWidth);
  for (const Rival& rival : rivals) line += right(rival.engine, kRivalWidth) + right("ratio", kRatioWidth);
  return line;
}

std::string table_row(const Figure& figure, std::span<const Rival> rivals) {
  std::string line = left(figure.name(), kNameWidth);
  line += right(number(figure.value.median) + " " + figure.kind->unit, kValueWidth);
  const bool spread = figure.value.q1 != figure.value.q3;
  line += right(spread ? number(figure.value.q1) + "-" + number(figure.value.q3) : "", kQuartilesWidth);
  const Throughput& throughput = figure.throughput;
  line += right(throughput.field == nullptr ? "" : number(throughput.value) + throughput_unit(throughput),
                kThroughputWidth);
  const bool known = throughput.field != nullptr && throughput.peak > 0;
  line +=
      right(known ? std::to_string(static_cast<int>(throughput.percent() + 0.5)) + " %" : "", kPercentWidth);
  for (const Rival& rival : rivals) {
    const std::optional<double> theirs = rival.value_for(figure), ratio = rival.ratio_for(figure);
    line += right(theirs ? number(*theirs) : "", kRivalWidth) +
            right(ratio ? number(*ratio) + "x" : "", kRatioWidth);
  }
  line = without_trailing_blanks(line);
  return figure.note.empty() ? line : line + "  " + figure.note;
}

std::string json_line(const BenchSetup& setup, const Figure& figure, std::span<const Rival> rivals) {
  Json line = {{"engine", "ibid"}, {"model", setup.model},       {"threads", setup.n_threads},
               {"kv", setup.kv},   {"numerics", setup.numerics}, {"isa", setup.isa}};
  line.update(figure.as_json());
  for (const Rival& rival : rivals) {
    const std::optional<double> theirs = rival.value_for(figure), ratio = rival.ratio_for(figure);
    if (theirs && ratio) line["against"][rival.engine] = {{figure.kind->value, *theirs}, {"ratio", *ratio}};
  }
  return json_to_string(line);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_header() {
  return "date,commit,machine,engine,model,threads,kv,setting,what,at,value,unit,q1,q3,peak_percent,"
         "command\n";
}

std::string csv_line(const BenchSetup& setup, const Figure& figure) {
  std::string at;
  for (size_t i = 0; i < kMaxFigureKeys; ++i) {
    if (figure.kind->keys[i] != nullptr) at += (at.empty() ? "" : "/") + std::to_string(figure.at[i]);
  }
  const Throughput& throughput = figure.throughput;
  const bool known = throughput.field != nullptr && throughput.peak > 0;
  const std::string fields[] = {setup.date,
                                setup.commit,
                                setup.machine,
                                "ibid",
                                setup.model,
                                std::to_string(setup.n_threads),
                                setup.kv,
                                setup.numerics + " " + setup.isa,
                                figure.kind->what,
                                at,
                                number(figure.value.median),
                                figure.kind->unit,
                                number(figure.value.q1),
                                number(figure.value.q3),
                                known ? number(throughput.percent()) : "",
                                setup.command};
  std::string line;
  for (const std::string& field : fields) line += csv_field(field) + ",";
  line.back() = '\n';
  return line;
}

Status append_to_csv(FileOps& files, const std::string& path, const BenchSetup& setup,
                     std::span<const Figure> figures) {
  Result<std::string> text = read_file(files, path, kMaxCsvBytes);
  if (!text.ok() && text.status().code() != ErrorCode::kNotFound) return text.status();
  std::string content = text.ok() && !text->empty() ? *std::move(text) : csv_header();
  if (!content.starts_with(csv_header())) {
    return {ErrorCode::kMismatch,
            path + ": begins with another header than " + csv_header().substr(0, csv_header().size() - 1)};
  }
  if (content.back() != '\n') content += '\n';
  for (const Figure& figure : figures) content += csv_line(setup, figure);
  return write_file_atomically(files, path, std::as_bytes(std::span(content)));
}

}  // namespace ibid
