#include "bench/lab/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file_ops.h"
#include "base/write_all.h"
#include "bench/lab/figure_table.h"

namespace ibid {

namespace {

constexpr mode_t kEverybody = 0666;  // permissions before the umask is applied

}  // namespace

Status write_public_file(const std::string& path, std::string_view text) {
  // The temporary file is in the same directory, so that rename() replaces the file. Its name has the process id, so
  // that two runs do not collide.
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kEverybody);
  if (fd < 0) return errno_status(errno, path, "create");
  int error = write_all(fd, text) ? 0 : errno;
  struct stat old {};
  if (error == 0 && ::stat(path.c_str(), &old) == 0 && ::fchmod(fd, old.st_mode & 07777) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.c_str());
  return errno_status(error, path, "write");
}

Status give_public_rights(const std::string& temporary, const std::string& path) {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat old {};
  const mode_t rights = ::stat(path.c_str(), &old) == 0 ? old.st_mode & 07777 : kEverybody & ~mask;
  return ::chmod(temporary.c_str(), rights) == 0 ? Status() : errno_status(errno, temporary, "chmod");
}

namespace {

constexpr uint64_t kMaxCsvBytes = 256'000'000;

}  // namespace

std::string json_line(const BenchSetup& setup, const Figure& figure, std::span<const Rival> rivals) {
  Json line = {{"engine", setup.engine}, {"model", setup.model},       {"threads", setup.n_threads},
               {"kv", setup.kv},         {"numerics", setup.numerics}, {"isa", setup.isa}};
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
