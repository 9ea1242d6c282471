#include "server/service/conversation_files.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>
#include <utility>

#include "model/model_fingerprint.h"
#include "runtime/session/session_file.h"
#include "templates/message.h"

namespace ibid::serve {
namespace {

constexpr std::string_view kEnding = ".chat";
constexpr std::string_view kUnfinished = ".tmp";  // create_temporary() in base/file_ops.h
constexpr size_t kNameDigits = 32;

bool begins_as_ours(std::string_view name) {
  return name.size() >= kNameDigits + kEnding.size() && name.substr(kNameDigits).starts_with(kEnding) &&
         name.substr(0, kNameDigits).find_first_not_of("0123456789abcdef") == name.npos;
}

// Whether the file itself says that it is none of use; otherwise it may only be out of reach, or a later version's.
bool is_unsound(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIo:
    case ErrorCode::kNotFound:
    case ErrorCode::kNotRegularFile:
    case ErrorCode::kUnsafePath:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kUnsupportedVersion: return false;
    default: return true;
  }
}

std::string note_of(const SavedSession& saved, const char* key) {
  const std::string* text = saved.notes.is_object() ? text_member(saved.notes, key) : nullptr;
  return text == nullptr ? std::string() : *text;
}

}  // namespace

Result<std::unique_ptr<ConversationFiles>> ConversationFiles::open(Options options, FileOps& files) {
  TRY_ASSIGN(const std::unique_ptr<Directory> directory, files.open_directory(options.directory));
  std::unique_ptr<ConversationFiles> opened(new ConversationFiles(std::move(options), files));
  TRY(opened->scan(*directory));
  return opened;
}

Status ConversationFiles::scan(Directory& directory) {
  TRY_ASSIGN(const std::vector<std::string> names, directory.list());
  struct OnDisk {
    std::string name;
    FileInfo info;
  };
  std::vector<OnDisk> found;
  for (const std::string& name : names) {
    if (!begins_as_ours(name)) continue;
    const Result<FileInfo> info = directory.info(name);
    if (!info.ok() || info->kind != FileKind::kRegular) {
      remark(path_of(name) + ": not a regular file, and not read");
    } else if (name.ends_with(kUnfinished)) {
      (void)directory.remove(name);
    } else if (name.size() == kNameDigits + kEnding.size()) {
      found.push_back({name, *info});
    }
  }
  std::ranges::sort(found, {}, [](const OnDisk& one) { return one.info.mtime_ns; });
  for (const OnDisk& one : found) scan_file(one.name, one.info.size);
  tell_of_other_versions();
  const std::lock_guard lock(mutex_);
  remove_files(make_room());
  return {};
}

void ConversationFiles::scan_file(const std::string& name, uint64_t n_bytes) {
  Entry entry;
  entry.n_bytes = n_bytes;
  const Result<SavedSession> saved = read_saved_session(files_, path_of(name));
  if (!saved.ok()) {
    refuse(name, saved.status());
    if (saved.status().code() != ErrorCode::kUnsupportedVersion) return;
  } else if (note_of(*saved, "model") == to_hex(options_.fingerprint.bytes)) {
    std::optional<ConversationPlaces> places = options_.places_of(*saved);
    if (!places) return refuse(name, {ErrorCode::kBadHeader, path_of(name) + ": bad field 'notes'"});
    entry.places = *std::move(places);
    entry.name_space = note_of(*saved, "namespace");
    entry.owner = note_of(*saved, "owner");
    if (entry.owner.empty()) entry.owner = entry.name_space;  // written before there were owners
  } else if (saved->numerics_version != kNumericsVersion) {
    ++of_other_versions_[saved->numerics_version];
  }
  const std::lock_guard lock(mutex_);
  add(name, std::move(entry));
}

void ConversationFiles::tell_of_other_versions() const {
  for (const auto& [version, n] : of_other_versions_) {
    remark(options_.directory + ": " + std::to_string(n) + (n == 1 ? " conversation was" : " conversations were") +
           " kept by " + (version == 0 ? "an earlier version" : "version " + std::to_string(version)) +
           " of the numerics, this program has version " + std::to_string(kNumericsVersion) +
           ": the text that clients send is read anew");
  }
}

void ConversationFiles::remark(const std::string& text) const {
  if (options_.remark) options_.remark(text);
}

// --- the index

void ConversationFiles::add(const std::string& name, Entry entry) {
  if (const auto before = entries_.find(name); before != entries_.end()) take_out(before);
  entry.used = ++n_used_;
  stats_.n_bytes += entry.n_bytes;
  if (const size_t first = entry.places.first; first > 0) {
    for (size_t n = first; n <= entry.places.hashes.size(); ++n) {
      by_hash_.emplace(entry.places.hashes[n - 1], Place{name, n});
    }
  }
  entries_.emplace(name, std::move(entry));
}

void ConversationFiles::take_out(Entries::iterator it) {
  for (const uint64_t hash : it->second.places.hashes) {
    const auto [first, last] = by_hash_.equal_range(hash);
    const auto place = std::find_if(first, last, [&](const auto& one) { return one.second.name == it->first; });
    if (place != last) by_hash_.erase(place);
  }
  stats_.n_bytes -= it->second.n_bytes;
  entries_.erase(it);
}

std::vector<std::string> ConversationFiles::make_room() {
  std::vector<std::string> gone;
  if (stats_.n_bytes <= options_.budget_bytes) return gone;
  std::map<std::string, uint64_t> bytes_of;
  for (const auto& [name, entry] : entries_) bytes_of[entry.owner] += entry.n_bytes;
  while (stats_.n_bytes > options_.budget_bytes) {
    const auto largest = std::ranges::max_element(bytes_of, {}, [](const auto& one) { return one.second; });
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second.owner != largest->first) continue;
      if (oldest == entries_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    largest->second -= oldest->second.n_bytes;
    gone.push_back(oldest->first);
    take_out(oldest);
  }
  return gone;
}

void ConversationFiles::remove_files(const std::vector<std::string>& names) {
  for (const std::string& name : names) (void)files_.remove(path_of(name));
}

std::optional<ConversationFiles::Found> ConversationFiles::find(std::span<const uint64_t> hashes,
                                                                size_t n_known) const {
  const std::lock_guard lock(mutex_);
  for (size_t n = hashes.size(); n > n_known; --n) {
    const auto [first, last] = by_hash_.equal_range(hashes[n - 1]);
    const auto place = std::find_if(first, last, [n](const auto& one) { return one.second.n == n; });
    if (place != last) return Found{place->second.name, n};
  }
  return std::nullopt;
}

// --- files

Result<SavedSession> ConversationFiles::read(const std::string& name) {
  Result<SavedSession> saved = read_saved_session(files_, path_of(name));
  if (!saved.ok()) {
    refuse(name, saved.status());
    return saved;
  }
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find(name); entry != entries_.end()) entry->second.used = ++n_used_;
  return saved;
}

void ConversationFiles::refuse(const std::string& name, const Status& why) {
  remark("a conversation on disk is not used: " + why.message());
  const std::lock_guard lock(mutex_);
  ++stats_.n_refused;
  if (const auto entry = entries_.find(name); entry != entries_.end()) take_out(entry);
  if (is_unsound(why.code())) remove_files({name});
}

std::string ConversationFiles::new_name() {
  std::random_device random;
  std::array<uint32_t, kNameDigits / 8> words;
  for (uint32_t& word : words) word = random();
  return to_hex(std::as_bytes(std::span(words))) + std::string(kEnding);
}

void ConversationFiles::write(const std::string& name, const SavedSession& saved, ConversationPlaces places) {
  Status status = write_session_file(files_, path_of(name), saved, nullptr, {});
  const Result<FileInfo> info = files_.info(path_of(name));
  const std::lock_guard lock(mutex_);
  if (!status.ok() || !info.ok()) {
    if (stats_.n_failed++ == 0) {
      remark("a conversation could not be kept on disk: " + (status.ok() ? info.status() : status).message());
    }
    return;
  }
  ++stats_.n_written;
  add(name, {.n_bytes = info->size, .name_space = note_of(saved, "namespace"), .owner = note_of(saved, "owner"),
             .places = std::move(places)});
  remove_files(make_room());
}

void ConversationFiles::forget_namespace(const Sha256Digest& name_space) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> gone;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto here = it++;
    if (here->second.name_space != to_hex(name_space)) continue;
    gone.push_back(here->first);
    take_out(here);
  }
  remove_files(gone);
}

ConversationFileStats ConversationFiles::stats() const {
  const std::lock_guard lock(mutex_);
  ConversationFileStats stats = stats_;
  stats.n_files = entries_.size();
  return stats;
}

}  // namespace ibid::serve
