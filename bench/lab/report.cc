#include "bench/lab/report.h"

#include "bench/lab/figure_table.h"
#include "bench/lab/public_file.h"

namespace ibid {

namespace {

constexpr uint64_t kMaxCsvBytes = 256'000'000;

}  // namespace

std::string json_line(const BenchSetup& setup, const Figure& figure, std::span<const Rival> rivals) {
  Json line = {{"engine", setup.engine}, {"model", setup.model},       {"threads", setup.n_threads},
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
                                setup.engine,
                                setup.model,
                                std::to_string(setup.n_threads),
                                setup.kv,
                                setup.numerics + " " + setup.isa,
                                figure.kind->what,
                                at,
                                short_number(figure.value.median),
                                figure.kind->unit,
                                short_number(figure.value.q1),
                                short_number(figure.value.q3),
                                known ? short_number(throughput.percent()) : "",
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
  return write_public_file(path, content);
}

}  // namespace ibid
