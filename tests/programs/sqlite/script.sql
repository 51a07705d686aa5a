-- What the shell does with a database in a file; every statement prints.
.bail off
.headers on
.mode column
select 'sqlite' as program, typeof(sqlite_version()) as kind;
.open first.db
pragma foreign_keys = on;
create table person(id integer primary key, name text not null unique, born int, score real);
create table pet(id integer primary key, owner int references person(id) on delete cascade, name text, kind text);
create index pet_owner on pet(owner, kind);
create view owners as select person.name as owner, count(pet.id) as pets from person left join pet on pet.owner = person.id group by person.id;
create trigger note after insert on pet begin update person set score = score + 1 where id = new.owner; end;
insert into person(name, born, score) values('Ada', 1815, 1.5), ('Grace', 1906, 2.25), ('Edsger', 1930, null), ('Barbara', 1939, 0);
insert into pet(owner, name, kind) values(1, 'Rex', 'dog'), (1, 'Tom', 'cat'), (2, 'Jerry', 'mouse'), (4, 'Polly', 'bird');
select * from person order by name;
select * from owners where pets > 0 order by pets desc, owner;

-- transactions
begin;
insert into person(name) values('Nobody');
select count(*) as before_rollback from person;
rollback;
select count(*) as after_rollback from person;
savepoint s; delete from pet where id > 2; rollback to s; delete from pet where id = 4; release s; select count(*) as pets from pet;
begin; insert into pet select id, 1 + id % 4, 'pet ' || id, 'number' from (with recursive n(id) as (select 10 union all select id + 1 from n where id < 509) select id from n); commit;
insert into person(name) values('Ada');
insert into pet(owner, name) values(99, 'orphan');
select changes() as changes, count(*) as pets from pet;

-- joins, subqueries, aggregates, compound
.mode list
.separator " | "
select p.name, group_concat(q.name, '+') from person p join (select * from pet where id < 14) q on q.owner = p.id group by p.id order by 1;
select name from person where exists (select 1 from pet where owner = person.id and id % 7 = 0) order by name collate nocase;
select avg(id), sum(id), min(name), max(name), total(owner) from pet;
select 1 union select 2 union all select 2 except select 3 intersect select 2;
select name, case when born < 1900 then 'old' when born is null then '?' else 'new' end from person order by born nulls last;
explain query plan select * from pet where owner = 2 and kind = 'number';

-- window functions and common table expressions
select id, owner, row_number() over (partition by owner order by id desc), sum(id) over (order by id rows between 1 preceding and 1 following), ntile(3) over (order by id) from pet where id < 20 order by id;
with recursive fib(n, a, b) as (values(1, 0, 1) union all select n + 1, b, a + b from fib where n < 20) select group_concat(a) from fib;
with recursive tree(id, parent, path) as (select 1, null, '1' union all select t.id * 2 + k.value, t.id, path || '/' || (t.id * 2 + k.value) from tree t, (select 0 as value union select 1) k where t.id < 4) select path from tree order by path;

-- json, dates, strings, numbers, blobs
select json('{"a": [1, 2.5, "x", null, true]}'), json_extract('{"a": {"b": [10, 20]}}', '$.a.b[1]'), json_array_length('[1,2,3]');
select key, value, type from json_each('{"one": 1, "list": [1], "text": "t"}');
select json_group_array(name), json_object('n', count(*)) from person;
select date('2024-02-28', '+2 days'), strftime('%Y-%j %H:%M', '2000-01-01 13:14:15'), julianday('2000-01-01 12:00');
select upper('abc'), substr('hello', 2, 3), replace('aXbX', 'X', '-'), instr('hello', 'l'), printf('%05d %.3f %s %q', 42, 3.14159, 'x', 'it''s'), hex(x'00ff'), length(zeroblob(1000)), quote(x'1234'), unicode('A'), char(66, 67), trim('  t '), abs(-5), round(2.567, 2), 7 / 2, 7 % 3, 7.0 / 2, 1 << 10, ~5, typeof(1e400), 9223372036854775807 + 1;
select 'abc' like 'A%', 'abc' glob 'a*', 'abc' between 'abb' and 'abd', null is null, coalesce(null, 2), iif(1 > 2, 'y', 'n'), nullif(1, 1), soundex('robert');

-- full text search, r-tree, statistics
create virtual table document using fts4(title, body);
insert into document values('one', 'the quick brown fox jumps'), ('two', 'over the lazy dog'), ('three', 'quick quick slow');
select title, snippet(document, '[', ']') from document where document match 'quick' order by title;
create virtual table box using rtree(id, x0, x1, y0, y1);
insert into box values(1, 0, 10, 0, 10), (2, 5, 15, 5, 15), (3, 20, 30, 20, 30);
select id from box where x1 >= 7 and x0 <= 12 order by id;
analyze;
select tbl, idx from sqlite_stat1 order by 1, 2;

-- alter, upsert, returning, generated columns, strict, without rowid, partial index, vacuum, integrity
alter table person add column note text default 'none';
alter table person rename column born to year;
insert into person(name, year) values('Ada', 1) on conflict(name) do update set note = 'upserted' returning id, name, note;
create table strict_one(a int, b text, c int as (a * 2) stored) strict;
insert into strict_one(a, b) values(21, 'x'), ('12', 5);
insert into strict_one(a) values('not a number');
select * from strict_one;
create table pair(k text primary key, v any) without rowid;
insert into pair values('b', 2), ('a', x'01');
select k, typeof(v) from pair;
create unique index some on pet(name) where kind <> 'number';
delete from person where name = 'Grace';
update pet set name = upper(name) where id < 13;
delete from pet where id > 30;
vacuum;
pragma integrity_check;
pragma user_version = 5;
pragma user_version;
attach 'second.db' as other;
create table other.copy as select * from main.pet where kind <> 'number';
select count(*) from other.copy;
select name from other.sqlite_schema;
.tables
.schema pet
.dump person
select nonsense from nowhere;
select * from person where;
.mode json
select id, name, score from person order by id;
.mode csv
select * from pet order by id limit 4;
.mode insert copies
select * from pet order by id limit 2;
.mode quote
select 1.5, 'it''s', null, x'ab';
.sha3sum
.exit 5
