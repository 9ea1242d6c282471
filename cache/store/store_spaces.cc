#include "cache/store/store_spaces.h"

#include <algorithm>

namespace ibid {

namespace {

void add_bytes(StoreStats& stats, size_t n) {
  stats.bytes += n;
  stats.peak_bytes = std::max(stats.peak_bytes, stats.bytes);
}

void add_page(StoreStats& stats, size_t bytes) {
  ++stats.pages;
  stats.peak_pages = std::max(stats.peak_pages, stats.pages);
  add_bytes(stats, bytes);
}

}  // namespace

StoreSpaces::StoreSpaces(size_t page_charge_bytes) : page_charge_bytes_(page_charge_bytes) {
  spaces_[kSharedSpace].name = "(shared)";
}

SpaceId StoreSpaces::find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? kNoSpace : found->second;
}

SpaceId StoreSpaces::add(std::string_view name) {
  SpaceId id = find(name);
  if (id == kNoSpace) {
    id = last_ + 1;
    const auto added = spaces_.emplace(id, Space{std::string(name), {}}).first;
    try {
      ids_.emplace(name, id);
    } catch (...) {
      spaces_.erase(added);
      throw;
    }
    last_ = id;
  }
  spaces_.at(id).is_held = true;
  return id;
}

void StoreSpaces::release(SpaceId space) {
  const auto found = spaces_.find(space);
  found->second.is_held = false;
  drop_if_empty(found);
}

void StoreSpaces::drop_if_empty(std::map<SpaceId, Space>::iterator found) {
  const Space& space = found->second;
  if (found->first == kSharedSpace || space.is_held || space.stats.bytes > 0) return;
  ids_.erase(ids_.find(space.name));
  spaces_.erase(found);
}

void StoreSpaces::count(SpaceId space, size_t StoreStats::*counter, size_t n) {
  total_.*counter += n;
  const auto found = spaces_.find(space);
  if (found != spaces_.end()) found->second.stats.*counter += n;
}

void StoreSpaces::page_added(SpaceId space) {
  add_page(total_, page_charge_bytes_);
  add_page(spaces_.at(space).stats, page_charge_bytes_);
}

void StoreSpaces::page_removed(SpaceId space) {
  const auto found = spaces_.find(space);
  CHECK(found != spaces_.end() && found->second.stats.pages > 0);
  for (StoreStats* stats : {&total_, &found->second.stats}) {
    --stats->pages;
    stats->bytes -= page_charge_bytes_;
  }
  drop_if_empty(found);
}

void StoreSpaces::bytes_added(SpaceId space, size_t n) {
  add_bytes(total_, n);
  add_bytes(spaces_.at(space).stats, n);
}

void StoreSpaces::bytes_removed(SpaceId space, size_t n) {
  const auto found = spaces_.find(space);
  CHECK(found != spaces_.end());
  total_.bytes -= n;
  found->second.stats.bytes -= n;
  drop_if_empty(found);
}

}  // namespace ibid
