-- What the interpreter must be able to do; prints everything that it checks.
print("version", _VERSION)
print("arguments", #arg, arg[1], arg[2])

-- errors: setjmp and longjmp through linked code
print(pcall(error, "message"))
print(pcall(error, { code = 42 }) and "?" or "an object")
local ok, object = pcall(error, setmetatable({ code = 7 }, { __tostring = function(e) return "E" .. e.code end }))
print(ok, tostring(object), object.code)
print(select("#", pcall(error)), pcall(error))
print(xpcall(function() local x = nil; return x.field end, function(m) return "handled: " .. m:gsub("^.-:%d+: ", "") end))
print(pcall(string.rep, "x", -1), pcall(string.rep))
local function deep(n) if n == 0 then error("bottom", 0) end return deep(n - 1) + 1 end
print(pcall(deep, 150))
local function overflow() return 1 + overflow() end
local ok, message = pcall(overflow)
print(ok, message:match("stack overflow") ~= nil)

-- coroutines
local function generator(n)
  return coroutine.wrap(function() for i = 1, n do coroutine.yield(i, i * i) end return "done" end)
end
local next_value = generator(3)
print(next_value()) print(next_value()) print(next_value()) print(next_value())
print(pcall(next_value))
local co = coroutine.create(function(a) local b = coroutine.yield(a * 2); error("in coroutine " .. b, 0) end)
print(coroutine.resume(co, 21)) print(coroutine.resume(co, "x")) print(coroutine.status(co))
local producer = coroutine.wrap(function()
  for word in ("the quick brown fox"):gmatch("%a+") do coroutine.yield(word) end
end)
local words = {}
for word in producer do words[#words + 1] = word end
print(table.concat(words, ","))

-- strings
print(string.format("%5d|%-5d|%05d|%+d|%x|%X|%o", 42, 42, 42, 42, 255, 255, 8))
print(string.format("%.3f|%10.2e|%g|%g|%a", 3.14159, 12345.678, 1e20, 0.1, 1.0))
print(string.format("%q|%s|%10s|%-10s|%c", 'a "quoted"\n line', true, "right", "left", 65))
print(("hello world"):gsub("o", "0"), ("key = value"):match("(%w+)%s*=%s*(%w+)"))
print(("%d"):rep(3, ","), ("abc"):reverse(), ("abc"):upper(), ("x"):byte(), #("\u{20AC}"))
print(string.pack("<i4", 100):byte(1, -1)) print(string.unpack("<d", string.pack("<d", 0.5)))
print(utf8.char(228, 8364, 128512), utf8.len("äöü"), utf8.codepoint("ä", 1))

-- metatables
local V = {}
V.__index = V
V.__add = function(a, b) return setmetatable({ x = a.x + b.x }, V) end
V.__eq = function(a, b) return a.x == b.x end
V.__lt = function(a, b) return a.x < b.x end
V.__le = function(a, b) return a.x <= b.x end
V.__call = function(self, y) return self.x * y end
V.__tostring = function(self) return "V(" .. self.x .. ")" end
V.__len = function() return 99 end
V.__concat = function(a, b) return tostring(a) .. "&" .. tostring(b) end
V.__close = function(self) print("close " .. self.x) end
local a, b = setmetatable({ x = 1 }, V), setmetatable({ x = 2 }, V)
print(tostring(a + b), a == b, a < b, a <= b, a(10), #a, a .. b)
do local guarded <close> = a; print("in the block") end
print(rawequal(a, a), rawlen({ 1, 2 }), getmetatable("").__index == string)
local proxy = setmetatable({}, { __index = function(_, k) return k .. "!" end, __newindex = function(t, k, v) rawset(t, k, v * 2) end })
proxy.y = 4
print(proxy.x, proxy.y)

-- closures and upvalues
local function counter() local n = 0; return function() n = n + 1; return n end, function() return n end end
local step, read = counter()
step() step()
print(step(), read())
local functions = {}
for i = 1, 3 do functions[i] = function() i = i + 1; return i end end
print(functions[1](), functions[1](), functions[2]())

-- numbers
print(7 // 2, -7 // 2, 7 % -3, 7.5 // 2, 1 / 0, -1 / 0, 2 ^ 10, 10 / 2, 3 | 4, 5 ~ 1, ~0, 1 << 40)
print(math.maxinteger + 1 == math.mininteger, math.tointeger(3.0), math.type(1), math.type(1.0), math.ult(1, -1))
print(math.floor(-3.5), math.ceil(3.2), math.fmod(7, 3), math.sqrt(2), math.huge, math.pi)
print(math.sin(1), math.exp(1), math.log(100, 10), tonumber("0x10"), tonumber("z", 36), tonumber("1e1"))

-- tables
local t = { 5, 2, 8, 1 }
table.sort(t, function(x, y) return x > y end)
print(table.concat(t, " "), table.unpack(t, 2, 3))
table.insert(t, 1, 9) table.remove(t)
print(#t, select(-1, table.unpack(t)), next({}), table.pack(1, nil, 3).n)
print(pcall(table.sort, { 3, 1, "x" }))

-- garbage collection, finalizers, weak tables
local finalized = 0
for _ = 1, 1000 do setmetatable({}, { __gc = function() finalized = finalized + 1 end }) end
local weak = setmetatable({}, { __mode = "k" })
for i = 1, 100 do weak[{}] = i end
collectgarbage() collectgarbage()
print("finalized", finalized, "weak", next(weak))
print(collectgarbage("count") > 0, collectgarbage("step"), collectgarbage("incremental"))

-- load, goto, io, os
print(load("return 1 + 1")(), load("syntax error here"))
for i = 1, 3 do for j = 1, 3 do if j == 2 then goto continue end io.write(i, ":", j, " ") ::continue:: end end
print()
local file = assert(io.open("lua-test.txt", "w"))
file:write("line 1\nline 2\n", 3.5, "\n") file:close()
for line in io.lines("lua-test.txt") do io.write("<", line, ">") end
print(io.open("absent/file"))
print(os.remove("lua-test.txt"), os.getenv("CLINCH_TEST_VARIABLE"), os.time({ year = 2020, month = 1, day = 1, hour = 12 }) > 0)
print(io.read("l"), io.read("n"), io.read("a"))
print(require("string") == string, package.loaded.math == math)
print(debug.traceback("trace", 1):match("^trace\nstack traceback:") ~= nil)
setmetatable({}, { __gc = function() print("finalizer at close") end })
io.stderr:write("to standard error\n")
os.exit(3, true)
