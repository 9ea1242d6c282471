#include "apps/sessions/session_files.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "apps/command_line/command.h"
#include "base/text.h"
#include "base/user_folders.h"
#include "base/utf8.h"

namespace ibid {

namespace {

// With ".1000.ibid.tmp" appended, the name must fit into 255 bytes, the limit of most file systems.
constexpr size_t kMaxEscapedBytes = 230;

bool needs_no_escape(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// True for control and invisible characters: with them two names could look the same.
bool is_invisible(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202F) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFF) ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

int capital_hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

Status check_session_name(std::string_view name) {
  const Status refused(ErrorCode::kInvalidArgument,
                       "a conversation's name has 1 to 64 characters: letters, digits, blanks and signs, but no / and "
                       "no \\, and no blank or . at its beginning or blank at its end");
  if (name.empty() || !utf8_is_valid(name) || name.front() == ' ' || name.back() == ' ' || name.front() == '.') {
    return refused;
  }
  size_t n_characters = 0;
  for (size_t i = 0; i < name.size(); ++n_characters) {
    const DecodedChar c = utf8_decode(name, i);
    if (c.code_point == '/' || c.code_point == '\\' || is_invisible(c.code_point)) return refused;
    i += c.length;
  }
  if (n_characters > kMaxNameCharacters) return refused;
  if (escape_session_name(name).size() > kMaxEscapedBytes) {
    return {ErrorCode::kInvalidArgument, "this name is too long for a file; use a shorter one"};
  }
  return {};
}

std::string escape_session_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : name) {
    if (needs_no_escape(c)) {
      escaped += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped += '%';
      escaped += kDigits[byte >> 4];
      escaped += kDigits[byte & 15];
    }
  }
  return escaped;
}

std::optional<std::string> unescape_session_name(std::string_view escaped) {
  std::string name;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (needs_no_escape(escaped[i])) {
      name += escaped[i];
      continue;
    }
    if (escaped[i] != '%' || i + 2 >= escaped.size()) return std::nullopt;
    const int high = capital_hex_digit(escaped[i + 1]);
    const int low = capital_hex_digit(escaped[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  // Accept only the canonical escape: "%41" is not the escape of "A".
  if (!check_session_name(name).ok() || escape_session_name(name) != escaped) return std::nullopt;
  return name;
}

namespace {

constexpr std::string_view kEnding = ".ibid";
constexpr uint64_t kMaxLockBytes = 64;
constexpr size_t kMaxNearNames = 3;

struct FileOfSession {
  std::string name;
  std::optional<size_t> branch;  // nullopt: the main file
};

std::optional<FileOfSession> parse_file_name(std::string_view file) {
  if (!file.ends_with(kEnding)) return std::nullopt;
  file.remove_suffix(kEnding.size());
  FileOfSession parsed;
  if (const size_t dot = file.rfind('.'); dot != std::string_view::npos) {
    const std::string_view digits = file.substr(dot + 1);
    size_t branch = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), branch);
    if (error != std::errc() || end != digits.data() + digits.size() || std::to_string(branch) != digits) {
      return std::nullopt;
    }
    parsed.branch = branch;
    file = file.substr(0, dot);
  }
  std::optional<std::string> name = unescape_session_name(file);
  if (!name) return std::nullopt;
  parsed.name = *std::move(name);
  return parsed;
}

// Returns " (process 123)" from the content of the lock file.
std::string holder_of(FileOps& files, const std::string& lock_path) {
  const Result<std::string> text = read_file(files, lock_path, kMaxLockBytes);
  if (!text.ok()) return "";
  const std::string digits = text->substr(0, text->find('\n'));
  if (digits.empty() || !has_only_digits(digits)) return "";
  return " (process " + digits + ")";
}

}  // namespace

Result<std::string> sessions_directory() {
  TRY_ASSIGN(const std::string folder, user_folder(UserFolder::kState));
  return folder + "/sessions";
}

Result<std::string> kv_cache_directory() {
  TRY_ASSIGN(const std::string folder, user_folder(UserFolder::kCache));
  return folder + "/kv";
}

std::string SessionFiles::path(const std::string& name) const {
  return directory_ + "/" + escape_session_name(name) + std::string(kEnding);
}

std::string SessionFiles::branch_path(const std::string& name, size_t branch) const {
  return directory_ + "/" + escape_session_name(name) + "." + std::to_string(branch) + std::string(kEnding);
}

bool SessionFiles::exists(const std::string& name) const { return files_->info(path(name)).ok(); }

Result<std::vector<std::string>> SessionFiles::names() const {
  std::vector<std::string> names;
  if (files_->info(directory_).status().code() == ErrorCode::kNotFound) return names;
  TRY_ASSIGN(const std::vector<std::string> files, files_->list(directory_));
  for (const std::string& file : files) {
    if (std::optional<FileOfSession> parsed = parse_file_name(file); parsed && !parsed->branch) {
      names.push_back(std::move(parsed->name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<size_t>> SessionFiles::branches(const std::string& name) const {
  std::vector<size_t> numbers;
  if (files_->info(directory_).status().code() == ErrorCode::kNotFound) return numbers;
  TRY_ASSIGN(const std::vector<std::string> files, files_->list(directory_));
  for (const std::string& file : files) {
    const std::optional<FileOfSession> parsed = parse_file_name(file);
    if (parsed && parsed->branch && parsed->name == name) numbers.push_back(*parsed->branch);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<std::string> SessionFiles::names_near(const std::string& name) const {
  const Result<std::vector<std::string>> known = names();
  std::vector<std::string> near = known.ok() ? nearest_names(name, *known) : std::vector<std::string>();
  if (near.size() > kMaxNearNames) near.resize(kMaxNearNames);
  return near;
}

Result<std::unique_ptr<FileLock>> SessionFiles::lock(const std::string& name) const {
  (void)files_->make_directory(directory_);
  const std::string lock_path = path(name) + ".lock";
  Result<std::unique_ptr<FileLock>> lock = files_->lock(lock_path);
  if (!lock.ok()) {
    if (lock.status().code() != ErrorCode::kBusy) return std::unique_ptr<FileLock>();
    return {ErrorCode::kBusy, "another ibid" + holder_of(*files_, lock_path) + " has this conversation open ('" + name +
                                  "'); close it there first, or choose another name"};
  }
  // Writes the process id for other processes; a failure is harmless.
  if (const Result<std::unique_ptr<File>> file = files_->create(lock_path); file.ok()) {
    const std::string holder = std::to_string(getpid()) + "\n";
    (void)(*file)->write(std::as_bytes(std::span(holder)));
    (void)(*file)->close();
  }
  return lock;
}

Status SessionFiles::rename_branches(const std::string& from, const std::string& to) const {
  TRY_ASSIGN(const std::vector<size_t> numbers, branches(from));
  for (const size_t number : numbers) TRY(files_->rename(branch_path(from, number), branch_path(to, number)));
  return {};
}

Status SessionFiles::rename(const std::string& from, const std::string& to) const {
  if (!exists(from)) return no_such(from);
  if (from == to) return {};
  TRY_ASSIGN(const std::unique_ptr<FileLock> lock_from, lock(from));
  TRY_ASSIGN(const std::unique_ptr<FileLock> lock_to, lock(to));
  if (exists(to)) return {ErrorCode::kDuplicate, "a conversation '" + to + "' already exists; choose another name"};
  TRY(rename_branches(from, to));
  TRY(files_->rename(path(from), path(to)));
  TRY(files_->remove(path(from) + ".lock"));
  return files_->sync_directory(directory_);
}

Status SessionFiles::remove(const std::string& name) const {
  if (!exists(name)) return no_such(name);
  TRY_ASSIGN(const std::unique_ptr<FileLock> lock_name, lock(name));
  TRY_ASSIGN(const std::vector<size_t> numbers, branches(name));
  for (const size_t number : numbers) TRY(files_->remove(branch_path(name, number)));
  TRY(files_->remove(path(name)));
  TRY(files_->remove(path(name) + ".lock"));
  return files_->sync_directory(directory_);
}

Status SessionFiles::no_such(const std::string& name) const {
  std::string message = "unknown conversation '" + name + "'";
  std::string near;
  for (const std::string& other : names_near(name)) near += (near.empty() ? "'" : ", '") + other + "'";
  if (!near.empty()) message += "; similar names: " + near;
  return {ErrorCode::kNotFound, message + " (" + own_command("sessions") + " lists them)"};
}

}  // namespace ibid
