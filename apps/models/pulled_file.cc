#include "apps/models/pulled_file.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include "apps/models/pull.h"
#include "base/file_ops.h"
#include "base/json_limits.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr int kNoteFormat = 1;
constexpr uint64_t kMaxNoteBytes = 1 << 16;

struct Note {
  std::string repository, path, revision, sha256;
};

std::string note_path(const std::string& target) {
  const fs::path path(target);
  return (path.parent_path() / ("." + path.filename().string() + ".pulled")).string();
}

// nullopt: no note, or one that cannot be read, which counts as none.
std::optional<Note> read_note(const std::string& target) {
  const std::string path = note_path(target);
  const Result<std::string> text = read_file(system_file_ops(), path, kMaxNoteBytes);
  const Result<Json> json = text.ok() ? parse_json(*text, path) : Result<Json>(text.status());
  if (!json.ok() || !json->is_object()) return std::nullopt;
  if (const auto format = json->find("format"); format == json->end() || *format != kNoteFormat) {
    std::fprintf(stderr, "%s has the format %s, this program reads %d: the note is ignored\n", path.c_str(),
                 format == json->end() ? "(none)" : format->dump().c_str(), kNoteFormat);
    return std::nullopt;
  }
  const auto word = [&json](const char* key) {
    const auto found = json->find(key);
    return found != json->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return Note{word("repository"), word("path"), word("revision"), word("sha256")};
}

}  // namespace

Result<FileState> compare_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target, error))) return FileState::kMissing;
  const Status another(ErrorCode::kDuplicate, target + " is there and is another file than " + origin.repository + ":" +
                                                  file.path + " of revision " + origin.revision +
                                                  "; move it away first");
  if (!fs::is_regular_file(target, error)) return another;
  const bool has_size = fs::file_size(target, error) == file.size && !error;
  TRY_ASSIGN(const std::string sha256, sha256_of_file(target));
  if (has_size && sha256 == file.sha256) return FileState::kSame;
  const std::optional<Note> note = read_note(target);
  const bool is_ours = note && note->repository == origin.repository && note->path == file.path &&
                       note->sha256 == sha256;
  if (is_ours && has_size && file.sha256.empty() && note->revision == origin.revision) return FileState::kSame;
  const bool is_unknown = !note && has_size && file.sha256.empty();
  return is_ours || is_unknown ? Result<FileState>(FileState::kOlder) : Result<FileState>(another);
}

void note_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file) {
  const Result<std::string> sha256 =
      file.sha256.empty() ? sha256_of_file(target) : Result<std::string>(file.sha256);
  if (!sha256.ok()) return;
  const Json note = {{"format", kNoteFormat}, {"repository", origin.repository}, {"path", file.path},
                     {"revision", origin.revision}, {"size", file.size}, {"sha256", *sha256}};
  const std::string text = json_to_string(note) + '\n';
  (void)write_file_atomically(system_file_ops(), note_path(target), std::as_bytes(std::span(text)));
}

std::string repository_folder(const HubName& name) {
  // No name holds an @, so that owners and names with two dashes keep apart.
  const bool ambiguous = name.owner.find("--") != name.owner.npos || name.name.find("--") != name.name.npos;
  return name.owner + (ambiguous ? "@" : "--") + name.name;
}

}  // namespace ibid
