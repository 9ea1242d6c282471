#include "server/service/conversation_files.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/session/session_file.h"
#include "server/service/conversation.h"
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

// Whether the file itself says that it is of no use; otherwise it may only be out of reach, or a later version's.
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

// The entry that a file becomes. Errors: those of read_saved_session(); kBadHeader for notes that are not sound.
Status put_file(const std::string& path, const std::string& name, FileOps& files, ConversationStore& store) {
  TRY_ASSIGN(const SavedSession saved, read_saved_session(files, path));
  std::optional<ConversationPlaces> places = Conversation::places_of(saved, store.hash_seed());
  if (!places) return {ErrorCode::kBadHeader, path + ": bad field 'notes'"};
  const std::string space = *text_member(saved.notes, "namespace");
  const std::string* owner = text_member(saved.notes, "owner");  // absent: written before there were owners
  const Holder holder{space, owner == nullptr ? space : *owner, owner == nullptr ? space : *owner};
  TRY_ASSIGN(std::string text, session_to_text(session_to_json(saved)));
  return store.put_history(holder, {.name = name.substr(0, kNameDigits), .numerics_version = saved.numerics_version,
                                    .text = std::move(text), .hashes = std::move(places->hashes),
                                    .first = places->first});
}

}  // namespace

void take_over_conversation_files(const std::string& directory, FileOps& files, ConversationStore& store,
                                  const std::function<void(const std::string&)>& remark) {
  const Result<FileInfo> info = files.info(directory);
  if (!info.ok() || info->kind != FileKind::kDirectory) return;
  const auto say = [&](const std::string& what) {
    if (remark) remark("a conversation on disk is not used: " + what);
  };
  Result<std::unique_ptr<Directory>> opened = files.open_directory(directory);
  const Result<std::vector<std::string>> names = opened.ok() ? (*opened)->list() : opened.status();
  if (!names.ok()) return say(names.status().message());
  std::vector<std::pair<int64_t, std::string>> found;  // when it was written, its name
  for (const std::string& name : *names) {
    if (!begins_as_ours(name)) continue;
    const Result<FileInfo> file = (*opened)->info(name);
    if (!file.ok() || file->kind != FileKind::kRegular) {
      say(directory + "/" + name + ": not a regular file, and not read");
    } else if (name.ends_with(kUnfinished)) {
      (void)(*opened)->remove(name);
    } else if (name.size() == kNameDigits + kEnding.size()) {
      found.emplace_back(file->mtime_ns, name);
    }
  }
  std::ranges::sort(found);
  for (const auto& [mtime_ns, name] : found) {
    const Status status = put_file(directory + "/" + name, name, files, store);
    if (!status.ok()) say(status.message());
    if (!status.ok() && !is_unsound(status.code())) continue;
    if (!status.ok()) store.count_refused();
    if (const Status removed = (*opened)->remove(name); !removed.ok()) say(removed.message());
  }
  std::error_code is_in_use;
  std::filesystem::remove(directory, is_in_use);
}

}  // namespace ibid::serve
