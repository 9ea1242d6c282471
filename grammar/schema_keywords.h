// Reads the keywords of one schema object, without what $ref and allOf bring.
#pragma once

#include "grammar/schema_part.h"

namespace ibid {

// Errors: as of read_schema(). REQUIRES: an object.
Result<SchemaPart> read_keywords(SchemaDocument& document, PlaceId place);

}  // namespace ibid
