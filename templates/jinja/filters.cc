#include "templates/jinja/filters.h"

namespace ibid::jinja {

Filter find_filter(std::string_view name) {
  if (const Filter filter = find_text_filter(name)) return filter;
  if (const Filter filter = find_collection_filter(name)) return filter;
  return find_selection_filter(name);
}

}  // namespace ibid::jinja
