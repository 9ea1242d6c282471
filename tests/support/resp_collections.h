// RespCollections: the sets, hashes and sorted sets of a RespServer. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ibid {

class RespCollections {
 public:
  // Returns the answer to a command, whose name is in capitals; nothing for a command of other types.
  std::optional<std::string> answer(const std::vector<std::string>& words);
  // True if there was a collection under this key, which is removed.
  bool erase(const std::string& key);
  void clear() { *this = RespCollections(); }
  // The names of all keys, members, fields and values, in one text.
  std::string all_texts() const;

 private:
  std::optional<std::string> answer_set(const std::vector<std::string>& words);
  std::optional<std::string> answer_hash(const std::vector<std::string>& words);
  std::optional<std::string> answer_sorted(const std::vector<std::string>& words);

  std::map<std::string, std::set<std::string>> sets_;
  std::map<std::string, std::map<std::string, std::string>> hashes_;
  std::map<std::string, std::map<std::string, int64_t>> sorted_;
};

}  // namespace ibid
