// The identity of a file that was fetched from a hub. A note beside the file names the repository, path and revision
// that it came from and the SHA-256 that was verified. Name and size do not identify a file; its digest does.
#pragma once

#include <string>

#include "apps/models/hub.h"
#include "base/result.h"

namespace ibid {

// The repository and commit that a file is fetched from.
struct HubOrigin {
  std::string repository;  // "hf:OWNER/NAME"
  std::string revision;
};

enum class FileState {
  kMissing,
  kSame,   // it has the digest of the hub's file
  kOlder,  // it came from this repository and was not changed since; or it has the size of a file without a digest
};

// Compares the file at `target` with the hub's; reads all of it. Error: kDuplicate when it is another file.
Result<FileState> compare_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file);

// Writes the note of a file that was fetched. The file can be used without it, so errors are not reported.
void note_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file);

// The directory of a repository's files in the models directory; different for each repository.
std::string repository_folder(const HubName& name);

}  // namespace ibid
