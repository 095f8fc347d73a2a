# Uses libsafetensors from R with stubs in C: see ../c/model.c for what it does.
#
# SPDX-License-Identifier: Apache-2.0
dyn.load(Sys.getenv("SAFETENSORS_STUBS"))

open_model <- function(path) .Call("r_open", path)
read <- function(file, name) .Call("r_read", file, name)
words <- function(values) paste(format(values, trim = TRUE, drop0trailing = TRUE, nsmall = 0), collapse = " ")
say <- function(...) cat(..., "\n", sep = "")

by_columns <- function(file) {
  columns <- .Call("r_list", file)
  names(columns) <- c("name", "dtype", "shape", "bytes", "offset")
  columns
}

by_getters <- function(file) {
  rows <- lapply(seq_len(.Call("r_count", file)), function(i) .Call("r_tensor", file, i))
  column <- function(k, kind) vapply(rows, `[[`, kind, k)
  list(name = column(1, ""), dtype = column(2, ""), shape = lapply(rows, `[[`, 3), bytes = column(4, 0), offset = column(5, 0))
}

tour <- function() {
  file <- open_model("model.safetensors")
  all <- by_columns(file)
  say("model.safetensors: ", length(all$name), " tensors, format ", .Call("r_metadata", file, "format"))
  for (i in seq_along(all$name))
    say("  ", all$name[i], " ", all$dtype[i], " [", paste(all$shape[[i]], collapse = ", "), "] ", all$bytes[i], " bytes")
  say("bias: ", words(read(file, "bias")))
  say("weight[1:3, ::-1]: ", words(.Call("r_read_backwards", file, "weight", 1, 3)))
  last <- NULL
  values <- .Call("r_read_all", file, c("weight", "bias"), function(done, total) last <<- c(done, total))
  say("plan: ", last[1], " of ", last[2], " bytes, the last weight is ", values[[1]][12])
  say("scale as F32: ", words(read(file, "scale")))
  .Call("r_write", "written.safetensors", "doubled", c(1, -2.5, 4), file, "scale")
  say("written.safetensors, doubled: ", words(read(open_model("written.safetensors"), "doubled")))
  tryCatch(open_model("truncated.safetensors"), error = function(problem) say(conditionMessage(problem)))
}

time_listing <- function(path) {
  file <- open_model(path)
  milliseconds <- function(expression) system.time(expression)[["elapsed"]] * 1e3
  getters <- milliseconds(one <- by_getters(file))
  columns <- milliseconds(two <- by_columns(file))
  stopifnot(identical(one, two))
  say(sprintf("getters %.1f ms, columns %.1f ms", getters, columns))
}

arguments <- commandArgs(trailingOnly = TRUE)
if (length(arguments) == 2 && arguments[1] == "--list") time_listing(arguments[2]) else tour()
