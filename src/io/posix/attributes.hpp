// What a system lets people attach to a file beside its mode: access control lists, and other extended attributes.
//
// POSIX.1-2008 knows none of them. Where this build asks for none, a file has its mode alone, and that is handed on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace st::io {

struct Attribute {
  std::string name;
  std::string value;
};

struct Attributes {
  std::vector<Attribute> lists;
  std::vector<Attribute> others;  // those that do not speak of the file's bytes
  bool lists_known = false;
};

// Of the file of this name, a link not followed.
Attributes attributes_of(int folder, const std::string& name);

// Hands on what can be handed on.
void give_others(int file, const std::vector<Attribute>& others);

// The file then has these lists and no other, also where its folder gave it some. Returns false if it has others.
bool give_lists(int file, const std::vector<Attribute>& lists);

}  // namespace st::io
