(* Uses libsafetensors from OCaml with stubs in C: see ../c/model.c for what it does.

   SPDX-License-Identifier: Apache-2.0 *)
open Bigarray

type file
type row = { name : string; dtype : int; shape : int array; bytes : int; offset : int }
type ('a, 'b) vector = ('a, 'b, c_layout) Array1.t
type floats = (float, float32_elt) vector

external open_model : string -> file = "ml_open"
external by_columns : file -> row array = "ml_by_columns"
external count : file -> int = "ml_count"
external row : file -> int -> row = "ml_row"
external dtype_name : int -> string = "ml_dtype_name"
external metadata : file -> string -> string = "ml_metadata"
external read : file -> string -> ('a, 'b) vector -> unit = "ml_read"
external read_backwards : file -> string -> int -> int -> floats -> unit = "ml_read_backwards"
external run : file -> (string * floats) list -> (int -> int -> unit) -> unit = "ml_run"
external bf16_to_f32 : (int, int16_unsigned_elt) vector -> floats -> unit = "ml_bf16_to_f32"
external write : string -> string -> floats -> file -> string -> unit = "ml_write"

let floats n : floats = Array1.create Float32 C_layout n
let words values = String.concat " " (List.init (Array1.dim values) (fun i -> Printf.sprintf "%g" values.{i}))

let tour () =
  let file = open_model "model.safetensors" in
  let rows = by_columns file in
  Printf.printf "model.safetensors: %d tensors, format %s\n" (Array.length rows) (metadata file "format");
  Array.iter (fun r ->
      let shape = String.concat ", " (Array.to_list (Array.map string_of_int r.shape)) in
      Printf.printf "  %s %s [%s] %d bytes\n" r.name (dtype_name r.dtype) shape r.bytes) rows;
  let bias = floats 3 and slice = floats 6 and weight = floats 12 and scale = floats 2 in
  read file "bias" bias;
  Printf.printf "bias: %s\n" (words bias);
  read_backwards file "weight" 1 3 slice;
  Printf.printf "weight[1:3, ::-1]: %s\n" (words slice);
  let last = ref (0, 0) in
  run file [("weight", weight); ("bias", bias)] (fun d t -> last := (d, t));
  Printf.printf "plan: %d of %d bytes, the last weight is %g\n" (fst !last) (snd !last) weight.{11};
  let halves = Array1.create Int16_unsigned C_layout 2 in
  read file "scale" halves;
  bf16_to_f32 halves scale;
  Printf.printf "scale as F32: %s\n" (words scale);
  write "written.safetensors" "doubled" (Array1.of_array Float32 C_layout [| 1.; -2.5; 4. |]) file "scale";
  let values = floats 3 in
  read (open_model "written.safetensors") "doubled" values;
  Printf.printf "written.safetensors, doubled: %s\n" (words values);
  try ignore (open_model "truncated.safetensors") with Failure message -> print_endline message

let time_listing path =
  let file = open_model path in
  let start = Sys.time () in
  let getters = Array.init (count file) (row file) in
  let middle = Sys.time () in
  let columns = by_columns file in
  let stop = Sys.time () in
  assert (getters = columns);
  Printf.printf "getters %.1f ms, columns %.1f ms\n" ((middle -. start) *. 1e3) ((stop -. middle) *. 1e3)

let () = if Array.length Sys.argv = 3 && Sys.argv.(1) = "--list" then time_listing Sys.argv.(2) else tour ()
