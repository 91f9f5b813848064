# Drawn by: gnuplot -d pareto.gp
set encoding utf8
set terminal svg size 960,400 dynamic noenhanced font 'Helvetica,Arial,sans-serif,14' background '#ffffff' name 'pareto'
set output 'pareto.svg'
set border 3 linecolor rgb '#444444'
set tics nomirror out textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
set key outside right top Left reverse samplen 2 spacing 1.2
set xlabel 'peak_bytes (MiB)'
set ylabel 'time of a step (none = 1)'
set offsets graph 0.05, graph 0.2, graph 0.1, graph 0.1
plot 'pareto.dat' index 0 using 1:2 with steps linewidth 1 dashtype 2 linecolor rgb '#888888' title 'Pareto front', \
     'pareto.dat' index 1 using 1:2:3:4 with yerrorbars linewidth 1.5 pointtype 7 pointsize 0.8 linecolor rgb '#0072B2' title 'Noisemark', \
     'pareto.dat' index 1 using 1:2:5 with labels left offset char 0.8,0.5 font ',11' notitle
