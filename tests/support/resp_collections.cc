#include "tests/support/resp_collections.h"

#include <algorithm>
#include <utility>

namespace ibid {
namespace {

std::string bulk(const std::string& bytes) { return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n"; }
std::string number(int64_t number) { return ":" + std::to_string(number) + "\r\n"; }
std::string list_of(const std::vector<std::string>& bulks) {
  std::string answer = "*" + std::to_string(bulks.size()) + "\r\n";
  for (const std::string& one : bulks) answer += one;
  return answer;
}

}  // namespace

std::optional<std::string> RespCollections::answer(const std::vector<std::string>& words) {
  if (std::optional<std::string> of_set = answer_set(words)) return of_set;
  if (std::optional<std::string> of_hash = answer_hash(words)) return of_hash;
  return answer_sorted(words);
}

std::optional<std::string> RespCollections::answer_set(const std::vector<std::string>& words) {
  const std::string& name = words[0];
  if (name != "SADD" && name != "SREM" && name != "SRANDMEMBER") return std::nullopt;
  std::set<std::string>& set = sets_[words.at(1)];
  if (name == "SRANDMEMBER") {
    std::vector<std::string> some;
    for (auto it = set.begin(); it != set.end() && some.size() < std::stoul(words.at(2)); ++it)
      some.push_back(bulk(*it));
    return list_of(some);
  }
  int64_t n = 0;
  for (size_t i = 2; i < words.size(); ++i) {
    n += static_cast<int64_t>(name == "SADD" ? set.insert(words[i]).second : set.erase(words[i]));
  }
  return number(n);
}

std::optional<std::string> RespCollections::answer_hash(const std::vector<std::string>& words) {
  const std::string& name = words[0];
  if (name != "HSET" && name != "HDEL" && name != "HMGET") return std::nullopt;
  std::map<std::string, std::string>& hash = hashes_[words.at(1)];
  if (name == "HMGET") {
    std::vector<std::string> values;
    for (size_t i = 2; i < words.size(); ++i) {
      values.push_back(hash.contains(words[i]) ? bulk(hash[words[i]]) : "$-1\r\n");
    }
    return list_of(values);
  }
  int64_t n = 0;
  const bool sets = name == "HSET";
  for (size_t i = 2; i < words.size(); i += sets ? 2 : 1) {
    n += sets ? static_cast<int64_t>(hash.insert_or_assign(words[i], words.at(i + 1)).second)
              : static_cast<int64_t>(hash.erase(words[i]));
  }
  return number(n);
}

std::optional<std::string> RespCollections::answer_sorted(const std::vector<std::string>& words) {
  const std::string& name = words[0];
  if (name != "ZADD" && name != "ZREM" && name != "ZSCORE" && name != "ZRANGE" && name != "ZREVRANGE") {
    return std::nullopt;
  }
  std::map<std::string, int64_t>& set = sorted_[words.at(1)];
  if (name == "ZSCORE") {
    const auto found = set.find(words.at(2));
    return found == set.end() ? "$-1\r\n" : bulk(std::to_string(found->second));
  }
  if (name == "ZRANGE" || name == "ZREVRANGE") {
    std::vector<std::pair<int64_t, std::string>> ranked;
    for (const auto& [member, score] : set) ranked.emplace_back(score, member);
    std::ranges::sort(ranked);
    if (name == "ZREVRANGE") std::ranges::reverse(ranked);
    std::vector<std::string> range;
    for (size_t i = std::stoul(words.at(2)); i < ranked.size() && i <= std::stoul(words.at(3)); ++i) {
      range.push_back(bulk(ranked[i].second));
      range.push_back(bulk(std::to_string(ranked[i].first)));
    }
    return list_of(range);
  }
  int64_t n = 0;
  const bool adds = name == "ZADD";
  for (size_t i = 2; i < words.size(); i += adds ? 2 : 1) {
    n += adds ? static_cast<int64_t>(set.insert_or_assign(words.at(i + 1), std::stoll(words[i])).second)
              : static_cast<int64_t>(set.erase(words[i]));
  }
  return number(n);
}

bool RespCollections::erase(const std::string& key) {
  return sets_.erase(key) + hashes_.erase(key) + sorted_.erase(key) > 0;
}

std::string RespCollections::all_texts() const {
  std::string all;
  for (const auto& [key, set] : sets_) {
    all += key + "\n";
    for (const std::string& member : set) all += member + "\n";
  }
  for (const auto& [key, hash] : hashes_) {
    all += key + "\n";
    for (const auto& [field, value] : hash) all += field + "\n" + value + "\n";
  }
  for (const auto& [key, set] : sorted_) {
    all += key + "\n";
    for (const auto& [member, score] : set) all += member + "\n";
  }
  return all;
}

}  // namespace ibid
